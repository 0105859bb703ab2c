/* The loops of an exported model, one for each form of a matrix: c_text.py writes out those that a model uses.
 *
 * Words after a dollar are filled in. Each part begins with a line of its name.
 */

//// load
/* An input in units of its own spread, cut off at both ends. */
static float scaled(float x, uint32_t i)
{
    const float u = ($difference) * ${name}_inverse[i];
    const float v = u < $low ? $low : u;
    return v > $high ? $high : v;
}

static void load(const float *x, float *z)
{
    uint32_t i;
    for (i = 0; i < ${inputs}u; i++) {
        z[i] = scaled(x[i], i);
    }
}

//// filled
/* A number of a row, or what stands in its place where it is missing. */
static float filled(const float *row, uint32_t j)
{
    return row[j] != row[j] ? ${name}_fill[j] : row[j];
}

//// within
static float within(float share)
{
    const float above = share < 0.0f ? 0.0f : share;
    return above > 1.0f ? 1.0f : above;
}

//// part
    for (i = 0; i < ${length}u; i++) {
        *x++ = $value;
    }

//// encode
/* The numbers that are scaled, of a row of fields; one that is missing and has nothing in its place is the mean. */
static void encode(const float *row, float *x)
{
    uint32_t i;
$parts    x -= ${inputs}u;
    for (i = 0; i < ${inputs}u; i++) {
        if (x[i] != x[i]) {
            x[i] = ${name}_shift[i];
        }
    }
}

//// self_test
#ifdef ${upper}_SELF_TEST
/* Whether the scores of two rows are those that the model had when this file was written: 1 if so, else 0. */
int ${name}_self_test(void)
{
    static const float rows[2][${upper}_INPUTS] = {
$rows
    };
    static const float wanted[2][${upper}_OUTPUTS] = {
$wanted
    };
    static float scratch[${upper}_SCRATCH], scores[${upper}_OUTPUTS];
    float worst = 0.0f, largest = 1.0f;
    uint32_t i, k;
    for (k = 0; k < 2u; k++) {
        ${name}_predict_in(rows[k], scores, scratch);
        for (i = 0; i < ${upper}_OUTPUTS; i++) {
            const float difference = scores[i] - wanted[k][i], size = wanted[k][i];
            worst = difference > worst ? difference : -difference > worst ? -difference : worst;
            largest = size > largest ? size : -size > largest ? -size : largest;
        }
    }
    return worst <= 1e-4f * largest;
}
#endif

//// zero
static void zero(uint32_t length, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] = 0.0f;
    }
}

//// copy
static void copy(uint32_t length, const float *u, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] = u[i];
    }
}

//// add
static void add(uint32_t length, const float *u, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] += u[i];
    }
}

//// relu
static void relu(uint32_t length, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] = z[i] > 0.0f ? z[i] : 0.0f;
    }
}

//// clip
static void clip(float lower, float upper, uint32_t length, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        const float above = z[i] > lower ? z[i] : lower;
        z[i] = above < upper ? above : upper;
    }
}

//// highest
static int highest(uint32_t length, const float *z)
{
    uint32_t i, best = 0;
    for (i = 1; i < length; i++) {
        if (z[i] > z[best]) {
            best = i;
        }
    }
    return (int)best;
}

//// dense
/* z += W u, by columns; $skipped of zero is passed over. */
static void $function(uint32_t rows, uint32_t columns, ${parameters}const float *u, float *z)
{
    uint32_t i, j;
    for (j = 0; j < columns; j++) {
        if ($active) {
            const float factor = $factor;
            for (i = 0; i < rows; i++) {
                z[i] += $value * factor;
            }
        }
        value += rows;
    }
}

//// sparse
/* z += W u, by columns: count[j] entries, each so many rows below the one before; $skipped of zero is passed over. */
static void $function(uint32_t columns, ${parameters}const float *u, float *z)
{
    uint32_t i, j;
    for (j = 0; j < columns; j++) {
        const uint32_t entries = count[j];
        if ($active) {
            const float factor = $factor;
            float *at = z;
            for (i = 0; i < entries; i++) {
                at += step[i];
                *at += $value * factor;
            }
        }
        step += entries;
        value += entries;
    }
}

//// exponential
/* exp(z), finite. */
static void exponential(uint32_t n, float *z)
{
    uint32_t i;
    for (i = 0; i < n; i++) {
        z[i] = expf(z[i] > 80.0f ? 80.0f : z[i]);
    }
}

//// sigmoid
/* 1 / (1 + exp(-z)), finite. */
static void sigmoid(uint32_t n, float *z)
{
    uint32_t i;
    for (i = 0; i < n; i++) {
        z[i] = 1.0f / (1.0f + expf(z[i] < -80.0f ? 80.0f : -z[i]));
    }
}
