// Gathers, and what else picks elements by position.
#include "common.cuh"

template <class T> DI void copy(void* y, i64 to, const void* x, i64 from) { ((T*)y)[to] = ((const T*)x)[from]; }
DI void copy_unit(int width, void* y, i64 to, const void* x, i64 from) {
  switch (width) {
  case 1: copy<uint8_t>(y, to, x, from); break;
  case 2: copy<uint16_t>(y, to, x, from); break;
  case 4: copy<uint32_t>(y, to, x, from); break;
  case 8: copy<uint2>(y, to, x, from); break;
  case 16: copy<uint4>(y, to, x, from); break;
  }
}
DI void zero_unit(int width, void* y, i64 to) {
  const uint4 zero = {};
  copy_unit(width, y, to, &zero, 0);
}

// gather copies slices of inner units at count indices, for each of the leading rows: y[lead,count,inner] = x[lead,size,inner].
struct Gather {
  void *y, *x, *index;
  Status* status;
  i64 total, inner, count, size;
  int kind, width;
};
KERNEL __launch_bounds__(256) void gather(const __grid_constant__ Gather p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    i64 row = n / p.inner, at = index_at(p.index, p.kind, row % p.count);
    if (in_range(at, p.size, p.status)) copy_unit(p.width, p.y, n, p.x, (row / p.count * p.size + at) * p.inner + n % p.inner);
  }
}

// gather_elements picks single elements: along the axis by the index, along the others in step with the result.
struct GatherElements {
  Operand y, x, index; // x's stride along the axis is 0 here
  Status* status;
  i64 size, step;      // of x along the axis
  int count, rank, dims[MAX_RANK], width, pad;
};
KERNEL __launch_bounds__(256) void gather_elements(const __grid_constant__ GatherElements p) {
  for (uint32_t n = blockIdx.x * 256u + threadIdx.x; n < (uint32_t)p.count; n += gridDim.x * 256u) {
    uint32_t rest = n;
    i64 to = 0, from = 0, by = 0;
    for (int k = p.rank - 1; k >= 0; k--) {
      uint32_t c = rest;
      if (k > 0) c = rest % p.dims[k], rest /= p.dims[k];
      to += c * p.y.stride[k], from += c * p.x.stride[k], by += c * p.index.stride[k];
    }
    i64 at = index_at(p.index.at, p.index.kind, by);
    if (in_range(at, p.size, p.status)) copy_unit(p.width, p.y.at, to, p.x.at, from + at * p.step);
  }
}

// A tuple of indices, the first of a shape's axes each, and how far apart in x what they name is.
struct Tuple {
  void* index;
  Status* status; // one for each
  int kind, count;
  i64 size[MAX_RANK], step[MAX_RANK];
};
// locate adds what tuple number t names to at; false: an index is outside.
DI bool locate(const Tuple& p, i64 t, i64& at) {
  for (int k = 0; k < p.count; k++) {
    i64 i = index_at(p.index, p.kind, t * p.count + k);
    if (!in_range(i, p.size[k], p.status + k)) return false;
    at += i * p.step[k];
  }
  return true;
}

// gather_nd takes slices of inner units at tuples; so many of them belong to each part of x, of batch units.
struct GatherND {
  void *y, *x;
  i64 total, inner, tuples, batch;
  int width, pad;
  Tuple tuple;
};
KERNEL __launch_bounds__(256) void gather_nd(const __grid_constant__ GatherND p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    i64 t = n / p.inner, at = t / p.tuples * p.batch + n % p.inner;
    if (locate(p.tuple, t, at)) copy_unit(p.width, p.y, n, p.x, at);
  }
}

// Scattering is inverted, so that results do not depend on the order in which updates arrive: clear makes last zeros, scatter_elements
// or scatter_nd leaves there the number, from 1 on, of the last update of each slice, and scattered reads it. Where updates are combined,
// numbers go the other way, so that it is the first; scatter_next finds for each the next of its slice, and combined goes through them.
enum Combine { COMBINE_NONE, COMBINE_SUM, COMBINE_PRODUCT, COMBINE_MAX, COMBINE_MIN };
struct Scatter {
  void *y, *x, *updates;
  uint32_t *last, *slice, *next; // by update, where they are combined
  i64 total, inner, slices, count; // units, of a slice; updates
  int width, pad;
  Tuple tuple;             // of scatter_nd
  Operand to, index;       // of scatter_elements: last, whose stride along the axis is 0 here, and the indices
  i64 size, step;          // of last along the axis
  int rank, dims[MAX_RANK], combine, kind;
};
DI void note(const Scatter& p, i64 at, uint32_t n) {
  if (p.combine) p.slice[n] = (uint32_t)at;
  atomicMax(p.last + at, p.combine ? (uint32_t)p.count - n : n + 1);
}
KERNEL __launch_bounds__(256) void scatter_clear(const __grid_constant__ Scatter p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.slices; n += gridDim.x * 256ll) p.last[n] = 0;
}
KERNEL __launch_bounds__(256) void scatter_elements(const __grid_constant__ Scatter p) {
  for (uint32_t n = blockIdx.x * 256u + threadIdx.x; n < (uint32_t)p.count; n += gridDim.x * 256u) {
    uint32_t rest = n;
    i64 to = 0, by = 0;
    for (int k = p.rank - 1; k >= 0; k--) {
      uint32_t c = rest;
      if (k > 0) c = rest % p.dims[k], rest /= p.dims[k];
      to += c * p.to.stride[k], by += c * p.index.stride[k];
    }
    i64 at = index_at(p.index.at, p.index.kind, by);
    if (in_range(at, p.size, p.tuple.status)) note(p, to + at * p.step, n);
  }
}
KERNEL __launch_bounds__(256) void scatter_nd(const __grid_constant__ Scatter p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.count; n += gridDim.x * 256ll) {
    i64 at = 0;
    if (locate(p.tuple, n, at)) note(p, at, (uint32_t)n);
  }
}
// unpack is scatter_nd of whole slices by one index, where a negative one is none.
KERNEL __launch_bounds__(256) void unpack(const __grid_constant__ Scatter p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.count; n += gridDim.x * 256ll) {
    i64 at = index_at(p.tuple.index, p.tuple.kind, n);
    if (at >= 0 && in_range(at, p.slices, p.tuple.status)) note(p, at, (uint32_t)n);
  }
}
KERNEL __launch_bounds__(256) void scattered(const __grid_constant__ Scatter p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    uint32_t last = p.last[n / p.inner];
    if (last) copy_unit(p.width, p.y, n, p.updates, (last - 1) * p.inner + n % p.inner);
    else if (p.x) copy_unit(p.width, p.y, n, p.x, n);
    else zero_unit(p.width, p.y, n);
  }
}
KERNEL __launch_bounds__(256) void scatter_next(const __grid_constant__ Scatter p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.count; n += gridDim.x * 256ll) {
    i64 j = n + 1;
    while (j < p.count && p.slice[j] != p.slice[n]) j++;
    p.next[n] = j < p.count ? (uint32_t)j + 1 : 0;
  }
}
template <class S, class T> DI S as_sum(T x) {
  if constexpr (sizeof(T) == 2) return to_float(x);
  else return x;
}
template <class S, class T> DI void combine(const Scatter& p, i64 n) {
  const T* updates = (const T*)p.updates + n % p.inner;
  const uint32_t last = p.last[n / p.inner];
  T v = ((const T*)p.x)[n];
  for (i64 u = last ? p.count + 1 - last : 0; u; u = p.next[u - 1]) {
    S a = as_sum<S>(v), b = as_sum<S>(updates[(u - 1) * p.inner]);
    switch (p.combine) {
    case COMBINE_SUM: a += b; break;
    case COMBINE_PRODUCT: a *= b; break;
    case COMBINE_MAX: a = a != a || a > b ? a : b; break; // a NaN stays, and comes
    case COMBINE_MIN: a = a != a || a < b ? a : b; break;
    }
    if constexpr (sizeof(T) == 2) v = from_float<T>(a);
    else v = a;
  }
  ((T*)p.y)[n] = v;
}
KERNEL __launch_bounds__(256) void combined(const __grid_constant__ Scatter p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    switch (p.kind) {
    case F32: combine<float, float>(p, n); break;
    case F16: combine<float, __half>(p, n); break;
    case BF16: combine<float, __nv_bfloat16>(p, n); break;
    case I32: combine<int, int>(p, n); break;
    case I64: combine<i64, i64>(p, n); break;
    }
  }
}

// sum_rows adds up the tokens of each sequence, in order: y[r,i] = Σ x[t,i] over the first two of the four numbers of sequence r. Of
// floats, it takes the largest instead if largest is set: NaN if one is.
struct SumRows {
  void *y, *x;
  int* sequences;
  i64 total, width;
  int tokens, kind, largest;
};
template <class S, class T> DI void sum_sequence(const SumRows& p, i64 n) {
  const int* sequence = p.sequences + n / p.width * 4;
  S sum = 0;
  if (p.largest) sum = -INFINITY;
#pragma unroll 8 // asked for together
  for (int t = max(sequence[0], 0); t < min(sequence[1], p.tokens); t++) {
    T x = ((const T*)p.x)[t * p.width + n % p.width];
    S v;
    if constexpr (sizeof(T) == 2) v = to_float(x);
    else v = x;
    if (!p.largest) sum += v;
    else if (v > sum || v != v) sum = v;
  }
  if constexpr (sizeof(T) == 2) ((T*)p.y)[n] = from_float<T>(sum);
  else ((T*)p.y)[n] = sum;
}
KERNEL __launch_bounds__(256) void sum_rows(const __grid_constant__ SumRows p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    switch (p.kind) {
    case F32: sum_sequence<float, float>(p, n); break;
    case F16: sum_sequence<float, __half>(p, n); break;
    case BF16: sum_sequence<float, __nv_bfloat16>(p, n); break;
    case I32: sum_sequence<int, int>(p, n); break;
    case I64: sum_sequence<i64, i64>(p, n); break;
    }
  }
}

// one_hot compares every position along the new axis with the index there; y is [outer,depth,inner].
struct OneHot {
  void *y, *index, *values;
  i64 total, inner, depth;
  int kind, width;
};
KERNEL __launch_bounds__(256) void one_hot(const __grid_constant__ OneHot p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    i64 hot = index_at(p.index, p.kind, n / p.inner / p.depth * p.inner + n % p.inner);
    if (hot < 0) hot += p.depth;
    copy_unit(p.width, p.y, n, p.values, hot == n / p.inner % p.depth);
  }
}

// pad shows x, which starts at before, in a larger or smaller y; elsewhere it shows value, zero, or x again by the mode.
enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };
struct Pad {
  void *y, *x, *value; // value may be null
  int count, rank, mode, width;
  int size[MAX_RANK], from[MAX_RANK], before[MAX_RANK], after[MAX_RANK]; // of y and of x
  i64 stride[MAX_RANK];                                                  // of x
};
DI int floor_mod(int a, int b) {
  int r = a % b;
  return r < 0 ? r + b : r;
}
KERNEL __launch_bounds__(256) void pad(const __grid_constant__ Pad p) {
  for (uint32_t n = blockIdx.x * 256u + threadIdx.x; n < (uint32_t)p.count; n += gridDim.x * 256u) {
    uint32_t rest = n;
    i64 at = 0;
    bool inside = true;
    for (int k = p.rank - 1; k >= 0; k--) {
      int lo = max(0, -p.before[k]), hi = p.from[k] - max(0, -p.after[k]), m = hi - lo; // what is left of x
      int j = (int)(rest % p.size[k]) - p.before[k];
      rest /= p.size[k];
      if (p.mode == PAD_EDGE) j = min(max(j, lo), hi - 1);
      if (p.mode == PAD_WRAP) j = lo + floor_mod(j - lo, m);
      if (p.mode == PAD_REFLECT) {
        int period = max(1, 2 * (m - 1)), r = floor_mod(j - lo, period);
        j = lo + min(r, period - r);
      }
      inside = inside && j >= lo && j < hi;
      at += j * p.stride[k];
    }
    if (inside) copy_unit(p.width, p.y, n, p.x, at);
    else if (p.value) copy_unit(p.width, p.y, n, p.value, 0);
    else zero_unit(p.width, p.y, n);
  }
}

// trilu keeps one triangle of matrices and makes the rest zero.
struct Trilu {
  void *y, *x;
  i64 total, rows, cols, k;
  int upper, width;
};
KERNEL __launch_bounds__(256) void trilu(const __grid_constant__ Trilu p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    i64 diagonal = n % p.cols - n / p.cols % p.rows;
    if (p.upper ? diagonal >= p.k : diagonal <= p.k) copy_unit(p.width, p.y, n, p.x, n);
    else zero_unit(p.width, p.y, n);
  }
}
