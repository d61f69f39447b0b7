// Products of 16-bit floats, and of float32 as tf32, by wgmma, operands brought by the copy engine (TMA): for Hopper. One group of
// warps starts copies, two multiply; blocks stay and take tile after tile.
#include "hopper.cuh"

struct __align__(64) Map { char bytes[128]; };

// HalfProduct with maps: boxes have 128 × 64 elements of a and 64 × 64 of the others. For tf32, b is [n,k], boxes are 128 × 32 of a
// and BN × 32 of b, and y and the residual have no map.
struct MappedProduct {
  Map a, b, map_y, map_residual;
  void *bias, *residual, *y;
  int m, n, k, act;
  float alpha;
  int fixed; // as in HalfProduct
};

DI void barrier_init(uint32_t b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n)); }
DI void barrier_expect(uint32_t b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
DI void barrier_arrive(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
DI void barrier_wait(uint32_t b, int phase) {
  asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD:\n}" ::"r"(b), "r"(phase) : "memory");
}
DI void copy_in(uint32_t to, const Map* m, int x, int y, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(m), "r"(x), "r"(y), "r"(barrier) : "memory");
}
DI void copy_out(const Map* m, uint32_t from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(m), "r"(x), "r"(y), "r"(from) : "memory");
}
DI void sync_group(int barrier) { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }

const int BM = 128, SA = BM * 128; // steps along the inner axis are of 128 bytes
template <class T> struct Step { static const int K = 128 / sizeof(T); };

// Tiles go in groups of eight rows, so that neighbours share operands in the cache.
DI void locate(int tile, int rows, int cols, int& row, int& col) {
  int group = tile / (8 * cols), high = min(8, rows - group * 8);
  row = group * 8 + tile % (8 * cols) % high, col = tile % (8 * cols) / high;
}

// produce brings the stages of all tiles of a block, one after the other. Weights of the first stages are on their way while
// earlier kernels still run.
template <class T, int BN, int ST> DI void produce(const MappedProduct& p, uint32_t base, uint32_t full, uint32_t empty) {
  constexpr int BK = Step<T>::K, SB = BN * 128;
  const int rows = (p.m + BM - 1) / BM, cols = (p.n + BN - 1) / BN, steps = (p.k + BK - 1) / BK;
  auto bring_b = [&](int s, int k, int col) {
    uint32_t to = base + s * (SA + SB) + SA;
    if (sizeof(T) == 4) {
      copy_in(to, &p.b, k * BK, col * BN, full + 8 * s);
    } else {
#pragma unroll
      for (int j = 0; j < BN / 64; j++) copy_in(to + j * BK * 128, &p.b, col * BN + j * 64, k * BK, full + 8 * s);
    }
  };
  int ahead = 0; // stages whose b was asked for before
  if (p.fixed && blockIdx.x < rows * cols) {
    int row, col;
    locate(blockIdx.x, rows, cols, row, col);
    for (; ahead < min(ST, steps); ahead++) {
      barrier_expect(full + 8 * ahead, SA + SB);
      bring_b(ahead, ahead, col);
    }
  }
  wait_for_last();
  int it = 0;
  for (int tile = blockIdx.x; tile < rows * cols; tile += gridDim.x) {
    int row, col;
    locate(tile, rows, cols, row, col);
    for (int k = 0; k < steps; k++, it++) {
      int s = it % ST;
      if (it >= ahead) {
        barrier_wait(empty + 8 * s, (it / ST & 1) ^ 1);
        barrier_expect(full + 8 * s, SA + SB);
        bring_b(s, k, col);
      }
      copy_in(base + s * (SA + SB), &p.a, k * BK, row * BM, full + 8 * s);
    }
  }
}

// A group of warps stores 64 × BN sums at a time. 16-bit floats go through a stage in shared memory as the copy engine reads it, rows of
// 64 elements whose chunks are rotated by the row. Residuals come into the stage first, while the sums are computed, and are replaced.
template <class T, int BN> DI void ask_residual(const MappedProduct& p, uint32_t stage, uint32_t barrier, int row, int col, int halves) {
  if (sizeof(T) == 4 || !p.residual || threadIdx.x % 128) return;
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); // the results before have left the stage
  barrier_expect(barrier, halves * BN * 128);
  for (int h = 0; h < halves; h++)
#pragma unroll
    for (int x = 0; x < BN / 64; x++) copy_in(stage + (h * BN + x * 64) * 128, &p.map_residual, col + x * 64, row + h * 64, barrier);
}

template <class T, int BN, int ACT>
DI void finish(float (&acc)[BN / 2], uint32_t stage, uint32_t residual, int phase, const MappedProduct& p, int row0, int col0, int barrier) {
  const int t = threadIdx.x, warp = t / 32 % 4, lane = t % 32, r = warp * 16 + lane / 4;
  if (sizeof(T) == 2 && p.residual) {
    barrier_wait(residual, phase);
  } else if (sizeof(T) == 2) {
    if (t % 128 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    sync_group(barrier);
  }
#pragma unroll
  for (int j = 0; j < BN / 8; j++) {
    int c = col0 + j * 8 + lane % 4 * 2;
    float2 bias = p.bias && c < p.n ? get2<T>(ask2<T>(p.bias, c)) : make_float2(0.f, 0.f);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int rr = r + h * 8;
      float u = fmaf(acc[j * 4 + h * 2], p.alpha, bias.x), v = fmaf(acc[j * 4 + h * 2 + 1], p.alpha, bias.y);
      if (ACT) u = quick(ACT, u), v = quick(ACT, v);
      if constexpr (sizeof(T) == 4) {
        i64 at = (i64)(row0 + rr) * p.n + c;
        if (c >= p.n || row0 + rr >= p.m) continue;
        float2 q = p.residual ? get2<T>(ask2<T>(p.residual, at)) : make_float2(0.f, 0.f);
        store2<T>(p.y, at, u + q.x, v + q.y);
      } else {
        uint32_t at = stage + j / 8 * 8192 + rr * 128 + ((j % 8 ^ (rr & 7)) << 4) + lane % 4 * 4;
        if (p.residual) {
          float2 q = get2<T>(word_at(at));
          u += q.x, v += q.y;
        }
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pack2<T>(u, v)) : "memory");
      }
    }
  }
  if (sizeof(T) == 4) return;
  wgmma_written();
  sync_group(barrier);
  if (t % 128 == 0) {
#pragma unroll
    for (int x = 0; x < BN / 64; x++) copy_out(&p.map_y, stage + x * 8192, col0 + x * 64, row0);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
}

template <int BN, int ST> struct Shared {
  uint32_t base, full, empty, residual, stage; // residual: a barrier for each group
  DI Shared(char* sm, uint64_t* bars, int users) {
    base = (shared_at(sm) + 1023) & ~1023, full = shared_at(bars), empty = full + 8 * ST, residual = empty + 8 * ST, stage = base + ST * (SA + BN * 128);
    if (threadIdx.x == 0) {
      for (int i = 0; i < ST; i++) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, users);
      for (int i = 0; i < 2; i++) barrier_init(residual + 8 * i, 1);
      asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
  }
};

// multiply adds the product of a stage to 64 × BN sums.
template <class T, int BN> DI void multiply(float (&acc)[BN / 2], uint32_t a, uint32_t b, int kk) {
  if constexpr (sizeof(T) == 4) wgmma<T>(acc, descriptor(a + kk * 32, 16, 1024), descriptor(b + kk * 32, 16, 1024));
  else wgmma<T>(acc, descriptor(a + kk * 32, 16, 1024), descriptor(b + kk * 2048, Step<T>::K * 128, 1024));
}

// Both groups work on one tile, 64 rows each.
template <class T, int BN, int ST, int ACT> DI void together(const MappedProduct& p) {
  extern __shared__ __align__(1024) char sm[];
  __shared__ __align__(8) uint64_t bars[2 * ST + 2];
  constexpr int BK = Step<T>::K, SB = BN * 128;
  const int t = threadIdx.x, group = t / 128;
  start_next();
  Shared<BN, ST> x(sm, bars, 2);
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 0) produce<T, BN, ST>(p, x.base, x.full, x.empty);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  wait_for_last();
  const int rows = (p.m + BM - 1) / BM, cols = (p.n + BN - 1) / BN, steps = (p.k + BK - 1) / BK, w = group - 1;
  const uint32_t stage = x.stage + w * BN * 128, residual = x.residual + 8 * w;
  int it = 0, phase = 0;
  for (int tile = blockIdx.x; tile < rows * cols; tile += gridDim.x, phase ^= 1) {
    int row, col;
    locate(tile, rows, cols, row, col);
    float acc[BN / 2];
#pragma unroll
    for (int i = 0; i < BN / 2; i++) acc[i] = 0.f;
    for (int k = 0; k < steps; k++, it++) {
      int s = it % ST;
      barrier_wait(x.full + 8 * s, it / ST & 1);
      uint32_t a = x.base + s * (SA + SB) + w * 64 * 128, b = x.base + s * (SA + SB) + SA;
      wgmma_fence();
#pragma unroll
      for (int kk = 0; kk < 4; kk++) multiply<T, BN>(acc, a, b, kk);
      wgmma_commit();
      wgmma_wait<1>();
      if (k > 0 && t % 128 == 0) barrier_arrive(x.empty + 8 * ((it + ST - 1) % ST));
      if (k == steps / 2) ask_residual<T, BN>(p, stage, residual, row * BM + w * 64, col * BN, 1);
    }
    wgmma_wait<0>();
    if (t % 128 == 0) barrier_arrive(x.empty + 8 * ((it + ST - 1) % ST));
    finish<T, BN, ACT>(acc, stage, residual, phase, p, row * BM + w * 64, col * BN, group);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Each group has every second tile, so that one finishes while the other multiplies.
template <class T, int BN, int ST, int ACT> DI void persistent(const MappedProduct& p) {
  extern __shared__ __align__(1024) char sm[];
  __shared__ __align__(8) uint64_t bars[2 * ST + 2];
  constexpr int BK = Step<T>::K, SB = BN * 128;
  const int t = threadIdx.x, group = t / 128;
  start_next();
  Shared<BN, ST> x(sm, bars, 1);
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 0) produce<T, BN, ST>(p, x.base, x.full, x.empty);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  wait_for_last();
  const int rows = (p.m + BM - 1) / BM, cols = (p.n + BN - 1) / BN, steps = (p.k + BK - 1) / BK, w = group - 1, tiles = rows * cols;
  const uint32_t stage = x.stage + w * BN * 256, residual = x.residual + 8 * w;
  int it = w * steps, phase = 0;
  for (int tile = blockIdx.x + w * gridDim.x; tile < tiles; tile += 2 * gridDim.x, it += steps, phase ^= 1) {
    int row, col;
    locate(tile, rows, cols, row, col);
    float top[BN / 2], low[BN / 2];
#pragma unroll
    for (int i = 0; i < BN / 2; i++) top[i] = low[i] = 0.f;
    // The groups alternate, or one would take an earlier round of a stage for its own.
    if (w == 1) asm volatile("bar.sync 4, 256;" ::: "memory");
    else if (tile != blockIdx.x) asm volatile("bar.sync 3, 256;" ::: "memory");
    for (int k = 0; k < steps; k++, it++) {
      int s = it % ST;
      barrier_wait(x.full + 8 * s, it / ST & 1);
      uint32_t a = x.base + s * (SA + SB), b = a + SA;
      wgmma_fence();
#pragma unroll
      for (int kk = 0; kk < 4; kk++) {
        multiply<T, BN>(top, a, b, kk);
        multiply<T, BN>(low, a + 8192, b, kk);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (k > 0 && t % 128 == 0) barrier_arrive(x.empty + 8 * ((it + ST - 1) % ST));
      if (k == steps / 2) ask_residual<T, BN>(p, stage, residual, row * BM, col * BN, 2);
    }
    // Every stage of this tile has been full: the other group's products may follow those that still run.
    if (tile + gridDim.x < tiles) {
      if (w == 0) asm volatile("bar.arrive 4, 256;" ::: "memory");
      else asm volatile("bar.arrive 3, 256;" ::: "memory");
    }
    wgmma_wait<0>();
    if (t % 128 == 0) barrier_arrive(x.empty + 8 * ((it + ST - 1) % ST));
    finish<T, BN, ACT>(top, stage, residual, phase, p, row * BM, col * BN, group);
    finish<T, BN, ACT>(low, stage + BN * 128, residual, phase, p, row * BM + 64, col * BN, group);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#define WGMMA_OF(how, name, T, BN, ST)                                                                                                 \
  KERNEL __launch_bounds__(384, 1) void wgmma_##name(const __grid_constant__ MappedProduct p) { how<T, BN, ST, ACT_NONE>(p); }           \
  KERNEL __launch_bounds__(384, 1) void wgmma_##name##_gelu(const __grid_constant__ MappedProduct p) { how<T, BN, ST, ACT_GELU>(p); }
#define WGMMA(how, name, BN, ST)            \
  WGMMA_OF(how, f16_##name, __half, BN, ST) \
  WGMMA_OF(how, bf16_##name, __nv_bfloat16, BN, ST)
WGMMA(together, 128x64, 64, 6)
WGMMA(together, 128x128, 128, 5)
WGMMA(together, 128x192, 192, 4)
WGMMA(persistent, 128x128_persistent, 128, 5)
WGMMA_OF(together, tf32_128x64, float, 64, 6)
WGMMA_OF(together, tf32_128x128, float, 128, 5)
