/* $title */
#include <stdint.h>

#include "$name.h"
$includes
$arrays
$functions
$returned ${name}_predict_in(const float *$row, float *scores, float *scratch)
{
$body}

#ifndef ${upper}_NO_STATIC_SCRATCH
$returned ${name}_predict(const float *x, float *scores)
{
    static float scratch[${upper}_SCRATCH];
    $give${name}_predict_in(x, scores, scratch);
}
#endif
$test