/* A prediction as a list of steps on one block of memory, one row of x after another.
 *
 * Matrices are kept by columns, and only those of inputs other than zero are read: half of the outputs of a ReLU are
 * zero, and so is the difference of the scaled inputs to those of x = 0 wherever x is 0. These are listed first, without
 * a branch that depends on them: mispredicted branches would cost as much as the products.
 */
#include <stdint.h>

enum { LOAD, ZERO, PUT, ADD, SPARSE, DENSE, CLIP };

typedef struct {
    int32_t kind, length, columns;
    int64_t to, source;   /* places in the block; -1 is the row of scores. Vectors are in value, if that is not NULL */
    const int32_t *first; /* of each column, in row and value */
    const int32_t *row;
    const float *value;
    const float *origin; /* subtracted from the source, unless it is NULL */
    float lower, upper;
} Step;

typedef struct {
    const double *shift, *inverse, *low, *high;
} Scaling;

static void load(const Scaling *scaling, int32_t length, const double *x, float *z)
{
    int32_t i;
    for (i = 0; i < length; i++) {
        const double above = x[i] < scaling->low[i] ? scaling->low[i] : x[i];
        const double inside = above > scaling->high[i] ? scaling->high[i] : above;
        z[i] = (float)((inside - scaling->shift[i]) * scaling->inverse[i]);
    }
}

static int32_t list_active(const Step *step, const float *u, int32_t *active, float *factor)
{
    int32_t j, count = 0;
    for (j = 0; j < step->columns; j++) {
        const float difference = step->origin ? u[j] - step->origin[j] : u[j];
        active[count] = j;
        factor[count] = difference;
        count += difference != 0.0f;
    }
    return count;
}

static void multiply(const Step *step, const float *u, float *z, int32_t *active, float *factor)
{
    const int32_t count = list_active(step, u, active, factor);
    int32_t i, k;
    for (k = 0; k < count; k++) {
        const int32_t j = active[k];
        const float f = factor[k];
        if (step->kind == DENSE) {
            const float *value = step->value + (int64_t)j * step->length;
            for (i = 0; i < step->length; i++) {
                z[i] += value[i] * f;
            }
        } else {
            const int32_t end = step->first[j + 1];
            for (i = step->first[j]; i < end; i++) {
                z[step->row[i]] += step->value[i] * f;
            }
        }
    }
}

static void take(const Step *step, const float *u, float *z)
{
    int32_t i;
    switch (step->kind) {
    case ZERO:
        for (i = 0; i < step->length; i++) {
            z[i] = 0.0f;
        }
        break;
    case PUT:
        for (i = 0; i < step->length; i++) {
            z[i] = u[i];
        }
        break;
    case ADD:
        for (i = 0; i < step->length; i++) {
            z[i] += u[i];
        }
        break;
    default: /* CLIP */
        for (i = 0; i < step->length; i++) {
            const float above = z[i] > step->lower ? z[i] : step->lower;
            z[i] = above < step->upper ? above : step->upper;
        }
    }
}

void tikhonet_run(const Step *steps, int32_t count, const Scaling *scaling, int64_t rows, int32_t inputs,
                  int32_t outputs, const double *x, float *scores, float *block, int32_t *active, float *factor)
{
    int64_t i;
    int32_t k;
    for (i = 0; i < rows; i++, x += inputs, scores += outputs) {
        for (k = 0; k < count; k++) {
            const Step *step = steps + k;
            float *z = step->to < 0 ? scores : block + step->to;
            if (step->kind == LOAD) {
                load(scaling, step->length, x, z);
            } else if (step->kind == SPARSE || step->kind == DENSE) {
                multiply(step, block + step->source, z, active, factor);
            } else {
                take(step, step->value ? step->value : block + step->source, z);
            }
        }
    }
}
