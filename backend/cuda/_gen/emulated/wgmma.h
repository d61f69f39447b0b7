// What the matrix units of Hopper compute, for hopper.cuh: at once.
#pragma once
DI void wgmma_fence() {}
DI void wgmma_commit() {}
template <int N> DI void wgmma_wait() {}
DI void wgmma_written() {}

// element reads one of a matrix of 16-bit floats that a descriptor finds: of a row, or of a column whose neighbours are in other rows.
template <class T> static float element(uint64_t matrix, int at, int step, bool columns) {
  uint32_t start = (matrix & 0x3fff) << 4, leading = (matrix >> 16 & 0x3fff) << 4, stride = (matrix >> 32 & 0x3fff) << 4, swizzle = matrix >> 62;
  int chunks = swizzle == 1 ? 8 : 4, row = columns ? step : at, col = columns ? at : step;
  uint32_t p = start + row / 8 * stride + row % 8 * chunks * 16 + col / (chunks * 8) * leading + col % (chunks * 8) * 2;
  return to_float(*(T*)(dynamic + (p ^ (p >> 7 & chunks - 1) << 4)));
}
template <class T> static float left(uint64_t a, int row, int k) { return element<T>(a, row, k, false); }
// A lane has pairs of its warp's row lane/4 and of the eighth after it.
template <class T> static float left(const uint32_t (*a)[4], int row, int k) { return to_float(((T*)&a[row % 8 * 4 + k % 8 / 2][row % 16 / 8 + k / 8 * 2])[k % 2]); }

template <class T, int N, class A> static void wgmma_by(float (&d)[N], A a, uint64_t b, bool columns, bool add) {
  meet(block); // all warps take part
  const int lane = running % 32;
  for (int i = 0; i < N; i++) {
    int row = running / 32 % 4 * 16 + lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = add ? d[i] : 0.f;
    for (int k = 0; k < 16; k++) sum = fmaf(left<T>(a, row, k), element<T>(b, col, k, columns), sum);
    d[i] = sum;
  }
  meet(block);
}
template <class T, int N> DI void wgmma_rows(float (&d)[N], uint64_t a, uint64_t b, bool add) { wgmma_by<T>(d, a, b, false, add); }
template <class T, int N> DI void wgmma_held(float (&d)[N], const uint32_t (&a)[4], uint64_t b) {
  static uint32_t all[MOST][4];
  memcpy(all[running], a, sizeof(a));
  wgmma_by<T>(d, (const uint32_t(*)[4])(all + running / 32 * 32), b, true, true);
}
