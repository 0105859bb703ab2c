/* A prediction as a list of steps on one block of memory, one row of x after another.
 *
 * Matrices are kept by columns: an input of zero, such as half of the outputs of a ReLU, costs one comparison.
 */
#include <stdint.h>

enum { LOAD, ZERO, START, ADD_VECTOR, COPY, ADD, SPARSE, DENSE, RELU };

typedef struct {
    int32_t kind, length, columns;
    int64_t to, source;   /* places in the block; -1 is the row of scores */
    const int32_t *first; /* of each column, in row and value */
    const int32_t *row;
    const float *value;
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

static void add_sparse(const Step *step, const float *u, float *z)
{
    int32_t j, k;
    for (j = 0; j < step->columns; j++) {
        const float factor = u[j];
        if (factor != 0.0f) {
            for (k = step->first[j]; k < step->first[j + 1]; k++) {
                z[step->row[k]] += step->value[k] * factor;
            }
        }
    }
}

static void add_dense(const Step *step, const float *u, float *z)
{
    int32_t i, j;
    for (j = 0; j < step->columns; j++) {
        const float *value = step->value + (int64_t)j * step->length;
        const float factor = u[j];
        if (factor != 0.0f) {
            for (i = 0; i < step->length; i++) {
                z[i] += value[i] * factor;
            }
        }
    }
}

static void take(const Step *step, const float *u, float *z)
{
    int32_t i;
    switch (step->kind) {
    case SPARSE:
        add_sparse(step, u, z);
        break;
    case DENSE:
        add_dense(step, u, z);
        break;
    case ZERO:
        for (i = 0; i < step->length; i++) {
            z[i] = 0.0f;
        }
        break;
    case START:
    case COPY:
        for (i = 0; i < step->length; i++) {
            z[i] = u[i];
        }
        break;
    case ADD_VECTOR:
    case ADD:
        for (i = 0; i < step->length; i++) {
            z[i] += u[i];
        }
        break;
    default: /* RELU */
        for (i = 0; i < step->length; i++) {
            z[i] = z[i] > 0.0f ? z[i] : 0.0f;
        }
    }
}

void tikhonet_run(const Step *steps, int32_t count, const Scaling *scaling, int64_t rows, int32_t inputs,
                  int32_t outputs, const double *x, float *scores, float *block)
{
    int64_t i;
    int32_t k;
    for (i = 0; i < rows; i++, x += inputs, scores += outputs) {
        for (k = 0; k < count; k++) {
            const Step *step = steps + k;
            float *z = step->to < 0 ? scores : block + step->to;
            if (step->kind == LOAD) {
                load(scaling, step->length, x, z);
            } else {
                take(step, step->kind == START || step->kind == ADD_VECTOR ? step->value : block + step->source, z);
            }
        }
    }
}
