/* $title
 *
 * float scores[${upper}_OUTPUTS];
 * $usage
$columns */
#ifndef TIKHONET_${upper}_H
#define TIKHONET_${upper}_H

#define ${upper}_INPUTS $inputs
#define ${upper}_OUTPUTS $outputs
#define ${upper}_FLASH_BYTES $flash /* of constant arrays; the code comes on top */
#define ${upper}_RAM_BYTES $ram /* of scratch; scores, $outputs floats, are the caller's */
#define ${upper}_SCRATCH $scratch /* floats */
$labels
#ifdef __cplusplus
extern "C" {
#endif

#ifndef ${upper}_NO_STATIC_SCRATCH
/* $meaning $finite Not reentrant: it has its own scratch. */
$returned ${name}_predict(const float *x, float *scores);
#endif

$declared/* The same in scratch of the caller's, ${upper}_SCRATCH floats; reentrant. */
$returned ${name}_predict_in(const float *x, float *scores, float *scratch);

#ifdef __cplusplus
}
#endif

#endif
