// Gathers, and what else picks elements by place.
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
  for (int i = 0; i < width; i++) ((uint8_t*)y)[to * width + i] = 0;
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

// one_hot compares every place along the new axis with the index there; y is [outer,depth,inner].
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
