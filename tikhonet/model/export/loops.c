/* The loops of an exported model, one for each form of a matrix: c_text.py writes out those that a model uses.
 *
 * Words after a dollar are filled in. Each part begins with a line of its name.
 */

//// load
/* An input in units of its own spread, cut off at both ends. */
static float scaled(float x, uint32_t i)
{
    const float u = ($difference) * $inverse;
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

//// each
static void $function(uint32_t length, ${operand}float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        $statement
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

//// at_positions
/* Every value at all positions of its channel. */
static void $function(uint32_t channels, uint32_t positions, const float *value, float *z)
{
    uint32_t i, j;
    for (i = 0; i < channels; i++) {
        for (j = 0; j < positions; j++) {
            *z++ $assigned value[i];
        }
    }
}

//// slide
/* One weight of a window over images. `size` holds pairs for height and width: of u, z, kernel, stride, padding, dilation;
 * then the channels of u and of z in a group. */
static uint32_t first_place(const uint32_t *size, uint32_t offset)
{
    const uint32_t stride = size[6], padding = size[8];
    return offset < padding ? (padding - offset + stride - 1u) / stride : 0u;
}

static uint32_t last_place(const uint32_t *size, uint32_t offset)
{
    const uint32_t room = size[0] + size[8], places = offset < room ? (room - offset - 1u) / size[6] + 1u : 0u;
    return places < size[2] ? places : size[2];
}

static void slide(const uint32_t *size, uint32_t place, float weight, const float *u, float *z)
{
    const uint32_t down = place / size[5] * size[10], right = place % size[5] * size[11], stride = size[7];
    const uint32_t y0 = first_place(size, down), y1 = last_place(size, down);
    const uint32_t x0 = first_place(size + 1, right), x1 = last_place(size + 1, right);
    uint32_t x, y;
    if (weight == 0.0f || x0 >= x1) {
        return;
    }
    for (y = y0; y < y1; y++) {
        const float *from = u + (y * size[6] + down - size[8]) * size[1] + (x0 * stride + right - size[9]);
        float *to = z + y * size[3] + x0;
        if (stride == 1u) {
            for (x = 0; x < x1 - x0; x++) {
                to[x] += weight * from[x];
            }
        } else {
            for (x = 0; x < x1 - x0; x++) {
                to[x] += weight * from[x * stride];
            }
        }
    }
}

//// average
/* z += the means of the windows over each channel of u. */
static void average(uint32_t channels, const uint32_t *size, const float *u, float *z)
{
    const uint32_t places = size[4] * size[5];
    uint32_t i, j;
    for (i = 0; i < channels; i++) {
        for (j = 0; j < places; j++) {
            slide(size, j, 1.0f / (float)places, u + i * size[0] * size[1], z + i * size[2] * size[3]);
        }
    }
}

//// dense_window
/* z += W over u: a row of W is a channel of z, a column a place of the window in a channel of u's group. */
static void $function(uint32_t rows, uint32_t columns, ${parameters}const uint32_t *size, const float *u, float *z)
{
    const uint32_t places = size[4] * size[5];
    uint32_t i, j;
    for (j = 0; j < columns; j++) {
        for (i = 0; i < rows; i++) {
            const uint32_t channel = i / size[13] * size[12] + j / places;
            slide(size, j % places, $weight, u + channel * size[0] * size[1], z + i * size[2] * size[3]);
        }
        value += rows;
    }
}

//// sparse_window
/* z += W over u: a row of W is a channel of z, a column a place of the window in a channel of u's group; count[j] entries,
 * each so many rows below the one before. */
static void $function(uint32_t columns, ${parameters}const uint32_t *size, const float *u, float *z)
{
    const uint32_t places = size[4] * size[5];
    uint32_t i, j;
    for (j = 0; j < columns; j++) {
        const uint32_t entries = count[j];
        uint32_t row = 0;
        for (i = 0; i < entries; i++) {
            uint32_t channel;
            row += step[i];
            channel = row / size[13] * size[12] + j / places;
            slide(size, j % places, $weight, u + channel * size[0] * size[1], z + row * size[2] * size[3]);
        }
        step += entries;
        value += entries;
    }
}
