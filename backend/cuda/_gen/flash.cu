// Attention by mma.sync, of 16-bit floats and of float32 as tf32.
#include "flash.cuh"

template <class T> DI void round4(uint32_t (&r)[4]) {
  if (sizeof(T) == 4)
#pragma unroll
    for (int e = 0; e < 4; e++) r[e] = round_tf32(r[e]);
}

template <class T, int D> struct Mma {
  typedef T Type;
  static const int SIZE = D, KEYS = 64, ALIGN = 128;
  static const int K = 32 / sizeof(T); // of the inner axis of a multiplication
  typedef Tile<T, D> Rows;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t q[D / K][4];

  DI static void written() {}
  DI void load(uint32_t sq) {
#pragma unroll
    for (int d = 0; d < D / K; d++) {
      matrices(q[d], sq + Rows::template at<64>(warp * 16 + (lane & 15), d * 2 + (lane >> 4)));
      round4<T>(q[d]);
    }
  }
  DI void scores(float (&s)[KEYS / 8][4], uint32_t sk) {
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.f;
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++)
#pragma unroll
      for (int d = 0; d < D / K; d++) {
        uint32_t b[4];
        matrices(b, sk + Rows::template at<KEYS>(n * 16 + (lane & 7) + (lane >> 4) * 8, d * 2 + (lane >> 3 & 1)));
        round4<T>(b);
        mma<T>(s[n * 2], q[d], b[0], b[1]);
        mma<T>(s[n * 2 + 1], q[d], b[2], b[3]);
      }
  }
  DI void weigh(float (&o)[D / 8][4], float (&s)[KEYS / 8][4], uint32_t sv) {
    if constexpr (sizeof(T) == 4) {
      // A lane's weights are those of keys 2i and 2i + 1 of eight: they take the positions i and i + 4 of the inner axis.
      auto value = [&](int r, int c) { return round_tf32(word_at(sv + Rows::template at<KEYS>(r, c / 4) + c % 4 * 4)); };
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        uint32_t w[4] = {__float_as_uint(s[n][0]), __float_as_uint(s[n][2]), __float_as_uint(s[n][1]), __float_as_uint(s[n][3])};
        round4<T>(w);
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
          int r = n * 8 + lane % 4 * 2, c = d * 8 + lane / 4;
          mma<T>(o[d], w, value(r, c), value(r + 1, c));
        }
      }
    } else {
      uint32_t w[KEYS / 16][4];
      pack_weights<T>(w, s);
#pragma unroll
      for (int d = 0; d < KEYS / 16; d++)
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
          uint32_t b[4];
          matrices_transposed(b, sv + Rows::template at<KEYS>(d * 16 + (lane & 15), n * 2 + (lane >> 4)));
          mma<T>(o[n * 2], w[d], b[0], b[1]);
          mma<T>(o[n * 2 + 1], w[d], b[2], b[3]);
        }
    }
  }
};
FLASH(f16_32, 4, Mma<__half, 32>)
FLASH(f16_64, 3, Mma<__half, 64>)
FLASH(f16_128, 1, Mma<__half, 128>)
FLASH(bf16_32, 4, Mma<__nv_bfloat16, 32>)
FLASH(bf16_64, 3, Mma<__nv_bfloat16, 64>)
FLASH(bf16_128, 1, Mma<__nv_bfloat16, 128>)
FLASH(tf32_32, 2, Mma<float, 32>)
FLASH(tf32_64, 2, Mma<float, 64>)
