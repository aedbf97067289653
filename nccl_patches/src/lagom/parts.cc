/* SPDX-License-Identifier: Apache-2.0 */
/* How an exact number of channels shares a collective. Without NCCL's headers, so that a test can compile it alone;
 * lagom.h has the declaration for everybody else. */
#include <cstddef>

void lagomParts(size_t count, size_t elementBytes, int nChannels, size_t* countEach, size_t* countLast);

/* The descriptor has room for a first, a last and one size for all between. Units of 16 bytes; the last part takes what
 * is over. The average rounded up where the others can have that much, else down: so no part has more than one unit above
 * the average as long as there are enough units, and fewer than nChannels units may all go to the last part. */
void lagomParts(size_t count, size_t elementBytes, int nChannels, size_t* countEach, size_t* countLast) {
  size_t unit = 16/elementBytes;
  size_t units = (count + unit - 1)/unit;
  size_t each = (units + nChannels - 1)/nChannels;
  if (each*unit*(nChannels-1) > count) each = units/nChannels;
  *countEach = nChannels == 1 ? 0 : each*unit;
  *countLast = count - (nChannels-1)*(*countEach);
}
