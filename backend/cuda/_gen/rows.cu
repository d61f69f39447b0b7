// Kernels that go over rows, a warp each: norms, embeddings, softmax, reductions.
#include "common.cuh"

// A row of up to HELD elements stays in registers between the passes over it, where it is read by fours; of another one each
// pass reads it again.
const int HELD = 1024;

struct Norm {
  void *x, *residual, *scale, *bias, *y, *sum; // all but x and y may be null
  int rows, cols, rms, vector;                 // vector: rows of whole fours, aligned to them
  float eps;
  int fixed; // scale and bias are weights, which no kernel writes
};

// Fours are four elements as they are in memory.
template <class T> struct Four { typedef uint2 Raw; };
template <> struct Four<float> { typedef uint4 Raw; };

// A Row is a row in the registers of a warp, lane by lane fours; all that is read of it is asked for at once.
template <class T> struct Row {
  static const int ROUNDS = HELD / 128;
  typename Four<T>::Raw raw[ROUNDS];
  DI void ask(const T* p, int cols, int lane) {
#pragma unroll
    for (int j = 0; j < ROUNDS; j++)
      if ((j * 32 + lane) * 4 < cols) raw[j] = *(const typename Four<T>::Raw*)(p + (j * 32 + lane) * 4);
  }
  DI void get(float (&v)[4], int j) const { load4(v, (const T*)&raw[j]); }
};

// Affine is a scale and a bias, each of which may be null.
template <class T> struct Affine {
  const T *scale, *bias;
  Row<T> gain, shift;
  DI void ask(int cols, int lane) {
    if (scale) gain.ask(scale, cols, lane);
    if (bias) shift.ask(bias, cols, lane);
  }
};

// norm_held normalises a row of whole fours in v and writes it.
template <class T> DI void norm_held(float (&v)[HELD / 128][4], T* y, const Affine<T>& a, int cols, bool rms, float eps, int lane) {
  const int ROUNDS = HELD / 128;
  float s = 0.f, q = 0.f;
#pragma unroll
  for (int j = 0; j < ROUNDS; j++) s += v[j][0] + v[j][1] + (v[j][2] + v[j][3]);
  float mean = rms ? 0.f : warp_sum(s) / cols;
#pragma unroll
  for (int j = 0; j < ROUNDS; j++)
    if ((j * 32 + lane) * 4 < cols) {
#pragma unroll
      for (int e = 0; e < 4; e++) v[j][e] -= mean, q += v[j][e] * v[j][e];
    }
  float r = rsqrtf(warp_sum(q) / cols + eps);
#pragma unroll
  for (int j = 0; j < ROUNDS; j++) {
    if ((j * 32 + lane) * 4 >= cols) continue;
    float g[4];
#pragma unroll
    for (int e = 0; e < 4; e++) v[j][e] *= r;
    if (a.scale) {
      a.gain.get(g, j);
#pragma unroll
      for (int e = 0; e < 4; e++) v[j][e] *= g[e];
    }
    if (a.bias) {
      a.shift.get(g, j);
#pragma unroll
      for (int e = 0; e < 4; e++) v[j][e] += g[e];
    }
    store4(y + (j * 32 + lane) * 4, v[j]);
  }
}

// norm_long normalises a row of any length, element by element, by three passes over what fetch(i) returns.
template <class T, class Fetch> DI void norm_long(Fetch fetch, T* y, const T* scale, const T* bias, int cols, bool rms, float eps, int lane) {
  float s = 0.f, q = 0.f;
  if (!rms)
    for (int i = lane; i < cols; i += 32) s += fetch(i);
  float mean = rms ? 0.f : warp_sum(s) / cols;
  for (int i = lane; i < cols; i += 32) {
    float d = fetch(i) - mean;
    q += d * d;
  }
  float r = rsqrtf(warp_sum(q) / cols + eps);
  for (int i = lane; i < cols; i += 32) {
    float v = (fetch(i) - mean) * r;
    if (scale) v *= to_float(scale[i]);
    if (bias) v += to_float(bias[i]);
    y[i] = from_float<T>(v);
  }
}

template <class T> DI void norm_rows(const Norm& p) {
  const int ROUNDS = HELD / 128;
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  const i64 at = (i64)row * p.cols;
  const T *x = (const T*)p.x + at, *residual = p.residual ? (const T*)p.residual + at : nullptr;
  T *y = (T*)p.y + at, *sum = p.sum ? (T*)p.sum + at : nullptr;
  const bool held = p.vector && p.cols <= HELD;
  Affine<T> affine = {(const T*)p.scale, (const T*)p.bias};
  start_next();
  if (p.fixed && held) affine.ask(p.cols, lane);
  wait_for_last();
  if (!held) {
    norm_long<T>([&](int i) {
      float v = to_float(x[i]) + (residual ? to_float(residual[i]) : 0.f);
      if (sum) sum[i] = from_float<T>(v);
      return v;
    }, y, (const T*)p.scale, (const T*)p.bias, p.cols, p.rms, p.eps, lane);
    return;
  }
  Row<T> a, b;
  a.ask(x, p.cols, lane);
  if (residual) b.ask(residual, p.cols, lane);
  if (!p.fixed) affine.ask(p.cols, lane);
  float v[ROUNDS][4];
#pragma unroll
  for (int j = 0; j < ROUNDS; j++) {
    v[j][0] = v[j][1] = v[j][2] = v[j][3] = 0.f;
    if ((j * 32 + lane) * 4 >= p.cols) continue;
    a.get(v[j], j);
    if (residual) {
      float w[4];
      b.get(w, j);
#pragma unroll
      for (int e = 0; e < 4; e++) v[j][e] += w[e];
    }
    if (sum) store4(sum + (j * 32 + lane) * 4, v[j]);
  }
  norm_held<T>(v, y, affine, p.cols, p.rms, p.eps, lane);
}
KERNEL __launch_bounds__(128) void norm_f32(const __grid_constant__ Norm p) { norm_rows<float>(p); }
KERNEL __launch_bounds__(128) void norm_f16(const __grid_constant__ Norm p) { norm_rows<__half>(p); }
KERNEL __launch_bounds__(128) void norm_bf16(const __grid_constant__ Norm p) { norm_rows<__nv_bfloat16>(p); }

const int MAX_TABLES = 6;
struct Embedding {
  void *scale, *bias, *y;
  int rows, cols, rms, vector, tables, positions;
  float eps;
  struct Table {
    void *at, *index; // null: by position, or the only row
    Status* status;
    i64 size;
    int kind, pad;
  } table[MAX_TABLES];
};
template <class T> DI const T* table_row(const Embedding& p, int t, int row) {
  const Embedding::Table& q = p.table[t];
  i64 at = q.size == 1 ? 0 : row % p.positions;
  if (q.index) {
    at = index_at(q.index, q.kind, row);
    if (!in_range(at, q.size, q.status)) at = 0;
  }
  return (const T*)q.at + at * p.cols;
}
template <class T> DI void embed_rows(const Embedding& p) {
  const int ROUNDS = HELD / 128;
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  T* y = (T*)p.y + (i64)row * p.cols;
  const T* part[MAX_TABLES];
#pragma unroll
  for (int t = 0; t < MAX_TABLES; t++)
    if (t < p.tables) part[t] = table_row<T>(p, t, row);
  if (!p.vector || p.cols > HELD) {
    norm_long<T>([&](int i) {
      float v = 0.f;
#pragma unroll
      for (int t = 0; t < MAX_TABLES; t++)
        if (t < p.tables) v += to_float(part[t][i]);
      return v;
    }, y, (const T*)p.scale, (const T*)p.bias, p.cols, p.rms, p.eps, lane);
    return;
  }
  float v[ROUNDS][4] = {};
#pragma unroll
  for (int t = 0; t < MAX_TABLES; t++) {
    if (t >= p.tables) continue;
    Row<T> r;
    r.ask(part[t], p.cols, lane);
#pragma unroll
    for (int j = 0; j < ROUNDS; j++)
      if ((j * 32 + lane) * 4 < p.cols) {
        float w[4];
        r.get(w, j);
#pragma unroll
        for (int e = 0; e < 4; e++) v[j][e] += w[e];
      }
  }
  Affine<T> affine = {(const T*)p.scale, (const T*)p.bias};
  affine.ask(p.cols, lane);
  norm_held<T>(v, y, affine, p.cols, p.rms, p.eps, lane);
}
KERNEL __launch_bounds__(128) void embed_f32(const __grid_constant__ Embedding p) { embed_rows<float>(p); }
KERNEL __launch_bounds__(128) void embed_f16(const __grid_constant__ Embedding p) { embed_rows<__half>(p); }
KERNEL __launch_bounds__(128) void embed_bf16(const __grid_constant__ Embedding p) { embed_rows<__nv_bfloat16>(p); }

// widen makes float32 of adjacent 16-bit floats, four at a time.
struct Widen {
  void *x, *y;
  i64 fours;
};
template <class T> DI void widen(const Widen& p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.fours; n += gridDim.x * 256ll) {
    float v[4];
    load4(v, (const T*)p.x + 4 * n);
    store4((float*)p.y + 4 * n, v);
  }
}
KERNEL __launch_bounds__(256) void widen_f16(const __grid_constant__ Widen p) { widen<__half>(p); }
KERNEL __launch_bounds__(256) void widen_bf16(const __grid_constant__ Widen p) { widen<__nv_bfloat16>(p); }

DI float load_float(const void* p, int kind, i64 i) {
  switch (kind) {
  case F16: return __half2float(((const __half*)p)[i]);
  case BF16: return __bfloat162float(((const __nv_bfloat16*)p)[i]);
  }
  return ((const float*)p)[i];
}
DI void store_float(void* p, int kind, i64 i, float v) {
  switch (kind) {
  case F16: ((__half*)p)[i] = __float2half_rn(v); break;
  case BF16: ((__nv_bfloat16*)p)[i] = __float2bfloat16_rn(v); break;
  default: ((float*)p)[i] = v;
  }
}

// softmax along an axis of size elements that are step apart.
struct Softmax {
  void *x, *y;
  i64 rows, step;
  int size, kind, log, pad;
};
KERNEL __launch_bounds__(128) void softmax(const __grid_constant__ Softmax p) {
  i64 row = blockIdx.x * 4ll + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  i64 at = row / p.step * p.step * p.size + row % p.step;
  float m = -INFINITY, s = 0.f;
  for (int i = lane; i < p.size; i += 32) m = fmaxf(m, load_float(p.x, p.kind, at + i * p.step));
  m = warp_max(m);
  for (int i = lane; i < p.size; i += 32) s += expf(load_float(p.x, p.kind, at + i * p.step) - m);
  s = warp_sum(s);
  for (int i = lane; i < p.size; i += 32) {
    float v = load_float(p.x, p.kind, at + i * p.step) - m;
    store_float(p.y, p.kind, at + i * p.step, p.log ? v - logf(s) : expf(v) / s);
  }
}

// Reductions, in the order of ir.Reduction.
enum Reduction { NONE, SUM, MEAN, MAX_OF, MIN_OF, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE };
struct Reduce {
  void *x, *y;
  int count, inner, fn, kind; // results, and elements for each
  int rank, inner_rank;
  int size[MAX_RANK], inner_size[MAX_RANK];
  i64 stride[MAX_RANK], inner_stride[MAX_RANK]; // of x
};
DI i64 walk(int rank, const int* size, const i64* stride, uint32_t n) {
  i64 at = 0;
  for (int k = rank - 1; k >= 0; k--) {
    uint32_t c = n;
    if (k > 0) c = n % size[k], n /= size[k];
    at += c * stride[k];
  }
  return at;
}
DI i64 load_int(const void* p, int kind, i64 i) {
  switch (kind) {
  case I64: return ((const i64*)p)[i];
  case I32: return ((const int*)p)[i];
  case I8: return ((const int8_t*)p)[i];
  }
  return ((const uint8_t*)p)[i];
}
DI void store_int(void* p, int kind, i64 i, i64 v) {
  switch (kind) {
  case I64: ((i64*)p)[i] = v; break;
  case I32: ((int*)p)[i] = (int)v; break;
  default: ((uint8_t*)p)[i] = (uint8_t)v;
  }
}
DI float combine(int fn, float a, float b) {
  switch (fn) {
  case MAX_OF: return a != a || a > b ? a : b;
  case MIN_OF: return a != a || a < b ? a : b;
  case PROD: return a * b;
  }
  return a + b;
}
DI i64 combine_int(int fn, i64 a, i64 b) {
  switch (fn) {
  case MAX_OF: return a > b ? a : b;
  case MIN_OF: return a < b ? a : b;
  case PROD: return a * b;
  }
  return a + b;
}
KERNEL __launch_bounds__(128) void reduce(const __grid_constant__ Reduce p) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= p.count) return;
  i64 from = walk(p.rank, p.size, p.stride, row);
  if (p.kind > BF16) {
    i64 s = p.fn == PROD ? 1 : p.fn == MAX_OF ? -0x7fffffffffffffffll - 1 : p.fn == MIN_OF ? 0x7fffffffffffffffll : 0;
    for (int i = lane; i < p.inner; i += 32) s = combine_int(p.fn, s, load_int(p.x, p.kind, from + walk(p.inner_rank, p.inner_size, p.inner_stride, i)));
    for (int i = 16; i; i >>= 1) s = combine_int(p.fn, s, __shfl_xor_sync(~0u, s, i));
    if (p.fn == MEAN) s = p.inner ? s / p.inner : 0;
    if (lane == 0) store_int(p.y, p.kind, row, s);
    return;
  }
  float m = 0.f;
  if (p.fn == LOG_SUM_EXP) {
    m = -INFINITY;
    for (int i = lane; i < p.inner; i += 32) m = fmaxf(m, load_float(p.x, p.kind, from + walk(p.inner_rank, p.inner_size, p.inner_stride, i)));
    m = warp_max(m);
    if (isinf(m)) {
      if (lane == 0) store_float(p.y, p.kind, row, m);
      return;
    }
  }
  float s = p.fn == PROD ? 1.f : p.fn == MAX_OF ? -INFINITY : p.fn == MIN_OF ? INFINITY : 0.f;
  for (int i = lane; i < p.inner; i += 32) {
    float v = load_float(p.x, p.kind, from + walk(p.inner_rank, p.inner_size, p.inner_stride, i));
    switch (p.fn) {
    case L1: v = fabsf(v); break;
    case L2: case SUM_SQUARE: v = v * v; break;
    case LOG_SUM_EXP: v = expf(v - m); break;
    }
    s = combine(p.fn, s, v);
  }
#pragma unroll
  for (int i = 16; i; i >>= 1) s = combine(p.fn, s, __shfl_xor_sync(~0u, s, i));
  switch (p.fn) {
  case MEAN: s /= p.inner; break;
  case L2: s = sqrtf(s); break;
  case LOG_SUM: s = logf(s); break;
  case LOG_SUM_EXP: s = m + logf(s); break;
  }
  if (lane == 0) store_float(p.y, p.kind, row, s);
}

// cumsum and argmax go along an axis of size elements that are step apart, a thread a line.
struct Line {
  void *x, *y;
  i64 rows, step;
  int size, kind, exclusive, reverse, smallest, last;
};
KERNEL __launch_bounds__(128) void cumsum(const __grid_constant__ Line p) {
  i64 row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= p.rows) return;
  i64 at = row / p.step * p.step * p.size + row % p.step, step = p.step;
  if (p.reverse) at += (p.size - 1) * step, step = -step;
  float s = 0.f;
  i64 n = 0;
  for (int i = 0; i < p.size; i++, at += step) {
    if (p.kind <= BF16) {
      float v = load_float(p.x, p.kind, at);
      store_float(p.y, p.kind, at, p.exclusive ? s : s + v);
      s += v;
    } else {
      i64 v = load_int(p.x, p.kind, at);
      store_int(p.y, p.kind, at, p.exclusive ? n : n + v);
      n += v;
    }
  }
}
KERNEL __launch_bounds__(128) void argmax(const __grid_constant__ Line p) {
  i64 row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= p.rows) return;
  i64 at = row / p.step * p.step * p.size + row % p.step;
  i64 best = 0;
  if (p.kind <= BF16) {
    float top = load_float(p.x, p.kind, at);
    for (int i = 1; i < p.size; i++) {
      float v = load_float(p.x, p.kind, at + i * p.step);
      if ((p.smallest ? v < top : top < v) || p.last && v == top) best = i, top = v;
    }
  } else {
    i64 top = load_int(p.x, p.kind, at);
    for (int i = 1; i < p.size; i++) {
      i64 v = load_int(p.x, p.kind, at + i * p.step);
      if ((p.smallest ? v < top : top < v) || p.last && v == top) best = i, top = v;
    }
  }
  ((i64*)p.y)[row] = best;
}

// rotary rotates pairs of a head's elements: x [B,S,H,D] by strides, cosines and sines [1 or B,S,half], y row-major.
struct Rotary {
  void *x, *cosine, *sine, *y;
  i64 total, stride[4], angles; // rows of angles
  int length, heads, size, half, interleaved, kind;
};
KERNEL __launch_bounds__(256) void rotary(const __grid_constant__ Rotary p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    int e = n % p.size;
    i64 rest = n / p.size, head = rest % p.heads, position = rest / p.heads;
    i64 at = position / p.length * p.stride[0] + position % p.length * p.stride[1] + head * p.stride[2];
    float v = load_float(p.x, p.kind, at + e * p.stride[3]);
    if (e < 2 * p.half) {
      bool lower = p.interleaved ? e % 2 == 0 : e < p.half;
      int j = p.interleaved ? e / 2 : e % p.half, other = p.interleaved ? e ^ 1 : lower ? e + p.half : e - p.half;
      i64 angle = position % p.angles * p.half + j;
      float rotated = load_float(p.sine, p.kind, angle) * load_float(p.x, p.kind, at + other * p.stride[3]);
      v = load_float(p.cosine, p.kind, angle) * v + (lower ? -rotated : rotated);
    }
    store_float(p.y, p.kind, n, v);
  }
}
