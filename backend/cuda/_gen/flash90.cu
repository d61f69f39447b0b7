// Attention of 16-bit floats by wgmma: for Hopper. Queries, keys and values stay in shared memory, weights in registers.
#include "flash.cuh"
#include "hopper.cuh"

template <class T, int D, int N> struct Wgmma {
  typedef T Type;
  static const int SIZE = D, KEYS = N, ALIGN = 1024;
  typedef Tile<T, D> Rows;
  static const int SWIZZLE = Rows::W == 4 ? 2 : 1;
  uint32_t q;

  DI static void written() { wgmma_written(); }
  DI void load(uint32_t sq) { q = sq; }
  DI void scores(float (&s)[KEYS / 8][4], uint32_t sk) {
    // 16 of the inner axis from row 0 on of a tile
    auto columns = [](uint32_t at, int d, int rows) {
      return descriptor(at + d * 2 / Rows::W * rows * Rows::ROW + d * 2 % Rows::W * 16, 16, 8 * Rows::ROW, SWIZZLE);
    };
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < D / 16; d++)
      wgmma_rows<T>((float(&)[KEYS / 2])s, columns(q, d, 64), columns(sk, d, KEYS), d > 0);
    wgmma_commit();
    wgmma_wait<0>();
  }
  DI void weigh(float (&o)[D / 8][4], float (&s)[KEYS / 8][4], uint32_t sv) {
    uint32_t w[KEYS / 16][4];
    pack_weights<T>(w, s);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < KEYS / 16; d++)
      wgmma_held<T>((float(&)[D / 2])o, w[d], descriptor(sv + d * 16 * Rows::ROW, KEYS * Rows::ROW, 8 * Rows::ROW, SWIZZLE));
    wgmma_commit();
    wgmma_wait<0>();
  }
};
FLASH(wgmma_f16_32, 3, Wgmma<__half, 32, 128>)
FLASH(wgmma_f16_64, 3, Wgmma<__half, 64, 128>)
FLASH(wgmma_f16_128, 3, Wgmma<__half, 128, 64>)
FLASH(wgmma_bf16_32, 3, Wgmma<__nv_bfloat16, 32, 128>)
FLASH(wgmma_bf16_64, 3, Wgmma<__nv_bfloat16, 64, 128>)
FLASH(wgmma_bf16_128, 3, Wgmma<__nv_bfloat16, 128, 64>)
