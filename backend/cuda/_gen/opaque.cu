// Opaque operators: pools, resizing, and images that are read between their elements.
#include "common.cuh"

const int AXES = 3;

// A pool over x [N,…,C], of which y [N,…,C] may be absent, and positions, where the largest elements are.
enum PoolMode { POOL_MEAN, POOL_NORM, POOL_MAX };
struct Pool {
  void *y, *positions, *x;
  i64 total, image, channel, axis[AXES], number[AXES], whole; // results, strides of x and of the numbers of positions, positions of a channel
  int size[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], before[AXES], end[AXES]; // end: of the padding
  int channels, kind, mode, padded; // padded: the mean counts the padding
  float power, start; // start: the result over padding alone
};
template <class T> DI void pool_at(const Pool& p, i64 n) {
  i64 image = n / p.channels;
  const int channel = (int)(n - image * p.channels);
  int at[AXES], count = 1, met = 0;
  for (int i = AXES - 1; i >= 0; i--) {
    i64 next = image / p.out[i];
    at[i] = (int)(image - next * p.out[i]) * p.stride[i] - p.before[i];
    count *= min(p.kernel[i], (p.end[i] - 1 - at[i]) / p.dilation[i] + 1);
    image = next;
  }
  const T* x = (const T*)p.x + image * p.image + channel * p.channel;
  float best = p.start;
  i64 where = 0;
  for (int i = 0; i < p.kernel[0]; i++)
    for (int j = 0; j < p.kernel[1]; j++)
      for (int k = 0; k < p.kernel[2]; k++) {
        int a = at[0] + i * p.dilation[0], b = at[1] + j * p.dilation[1], c = at[2] + k * p.dilation[2];
        if ((unsigned)a >= (unsigned)p.size[0] || (unsigned)b >= (unsigned)p.size[1] || (unsigned)c >= (unsigned)p.size[2]) continue;
        float v = to_float(x[a * p.axis[0] + b * p.axis[1] + c * p.axis[2]]);
        switch (p.mode) {
        case POOL_MEAN: best += v; break;
        case POOL_NORM: best += powf(fabsf(v), p.power); break;
        case POOL_MAX: // the first NaN, if there is one
          if (!met || v > best || (v != v && best == best)) best = v, where = (image * p.channels + channel) * p.whole + a * p.number[0] + b * p.number[1] + c * p.number[2];
        }
        met++;
      }
  if (p.mode == POOL_MEAN) best /= max(p.padded ? count : met, 1);
  if (p.mode == POOL_NORM) best = powf(best, 1.f / p.power);
  if (p.y) ((T*)p.y)[n] = from_float<T>(best);
  if (p.positions) ((i64*)p.positions)[n] = where;
}
KERNEL __launch_bounds__(256) void pool(const __grid_constant__ Pool p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    switch (p.kind) {
    case F32: pool_at<float>(p, n); break;
    case F16: pool_at<__half>(p, n); break;
    case BF16: pool_at<__nv_bfloat16>(p, n); break;
    case I8: pool_at<int8_t>(p, n); break;
    case U8: pool_at<uint8_t>(p, n); break;
    }
  }
}

// resize mixes elements along up to three axes by a table: for each position along an axis, pairs of a neighbour and its weight, of which
// fewer count where one is NONE, and none where what is outside shows.
const uint32_t NONE = ~0u;
struct Resize {
  void *y, *x;
  uint32_t* table;
  i64 total, stride[MAX_RANK], at[AXES]; // strides of x, and where the axes begin in the table
  int rank, kind, size[MAX_RANK], axis[AXES], taps[AXES]; // of y; an axis of −1 is none
  float outside;
  int pad;
};
template <class T> DI void resize_at(const Resize& p, i64 n) {
  i64 rest = n, from = 0;
  const uint32_t* row[AXES];
  bool inside = true;
  for (int i = 0; i < AXES; i++) row[i] = p.table;
  for (int k = p.rank - 1; k >= 0; k--) {
    i64 next = rest / p.size[k], c = rest - next * p.size[k];
    bool mixed = false;
    for (int i = 0; i < AXES; i++)
      if (p.axis[i] == k) row[i] = p.table + p.at[i] + c * 2 * p.taps[i], inside = inside && *row[i] != NONE, mixed = true;
    if (!mixed) from += c * p.stride[k];
    rest = next;
  }
  float sum = inside ? 0.f : p.outside;
  const T* x = (const T*)p.x + from;
  for (int i = 0; inside && i < p.taps[0]; i++) {
    const bool along0 = p.axis[0] >= 0;
    if (along0 && row[0][2 * i] == NONE) break;
    const float w0 = along0 ? __uint_as_float(row[0][2 * i + 1]) : 1.f;
    const T* x0 = along0 ? x + row[0][2 * i] * p.stride[p.axis[0]] : x;
    for (int j = 0; j < p.taps[1]; j++) {
      const bool along1 = p.axis[1] >= 0;
      if (along1 && row[1][2 * j] == NONE) break;
      const float w1 = along1 ? w0 * __uint_as_float(row[1][2 * j + 1]) : w0;
      const T* x1 = along1 ? x0 + row[1][2 * j] * p.stride[p.axis[1]] : x0;
      for (int k = 0; k < p.taps[2]; k++) {
        const bool along2 = p.axis[2] >= 0;
        if (along2 && row[2][2 * k] == NONE) break;
        const float w2 = along2 ? w1 * __uint_as_float(row[2][2 * k + 1]) : w1;
        sum += w2 * to_float(*(along2 ? x1 + row[2][2 * k] * p.stride[p.axis[2]] : x1));
      }
    }
  }
  ((T*)p.y)[n] = from_float<T>(sum);
}
KERNEL __launch_bounds__(256) void resize(const __grid_constant__ Resize p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    switch (p.kind) {
    case F32: resize_at<float>(p, n); break;
    case F16: resize_at<__half>(p, n); break;
    case BF16: resize_at<__nv_bfloat16>(p, n); break;
    }
  }
}

// grid_sample reads images x [N,C,…] where a grid [N,…,axes] says; what is beyond an image is zeros, its border, or the image mirrored.
enum SampleMode { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC };
enum SamplePadding { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION };
struct Sample {
  void *y, *x, *grid;
  i64 total, image, channel, axis[AXES], line[AXES + 2]; // results, strides of x and of the grid
  int size[AXES], out[AXES], channels, axes, mode, padding, corners, kind;
};
DI float fold(float x, float lo, float hi) {
  if (lo == hi) return lo;
  float d = fmodf(fabsf(x - lo), 2.f * (hi - lo));
  return lo + fminf(d, 2.f * (hi - lo) - d);
}
DI float keys(float x) { // the cubic convolution kernel (1981) with a = −0.75
  x = fabsf(x);
  return x <= 1.f ? (1.25f * x - 2.25f) * x * x + 1.f : x < 2.f ? ((-0.75f * x + 3.75f) * x - 6.f) * x + 3.f : 0.f;
}
// A SampledAxis is a coordinate along an axis; tap finds a neighbour, or −1 in a padding of zeros.
struct SampledAxis {
  float x, lo, hi;
  int n;
  DI SampledAxis(const Sample& p, float c, int n) : n(n) {
    lo = p.corners ? 0.f : -0.5f, hi = p.corners ? n - 1.f : n - 0.5f;
    x = p.corners ? (c + 1.f) / 2.f * (n - 1.f) : ((c + 1.f) * n - 1.f) / 2.f;
    if (p.mode == SAMPLE_NEAREST) x = rintf(x);
    if (x >= lo && x <= hi) return;
    if (p.padding == PADDING_BORDER && p.mode != SAMPLE_CUBIC) x = fminf(fmaxf(x, 0.f), n - 1.f); // of cubic, only the neighbours move
    if (p.padding == PADDING_REFLECTION) x = fold(x, lo, hi);
  }
  DI int tap(const Sample& p, int k, float& weight) const {
    float at = floorf(x) + (p.mode == SAMPLE_CUBIC ? k - 1 : k), d = x - at;
    weight = p.mode == SAMPLE_NEAREST ? 1.f : p.mode == SAMPLE_LINEAR ? 1.f - fabsf(d) : keys(d);
    if (at < 0.f || at >= n) {
      if (p.padding == PADDING_ZEROS) return -1;
      at = p.padding == PADDING_BORDER ? at : truncf(fold(at, lo, hi));
    }
    return (int)fminf(fmaxf(at, 0.f), n - 1.f);
  }
};
template <class T> DI void sample_at(const Sample& p, i64 n) {
  i64 rest = n, g = 0;
  for (int k = AXES - 1; k >= 0; k--) {
    i64 next = rest / p.out[k];
    g += (rest - next * p.out[k]) * p.line[1 + k];
    rest = next;
  }
  const i64 image = rest / p.channels;
  const T *grid = (const T*)p.grid + g + image * p.line[0], *x = (const T*)p.x + image * p.image + (rest - image * p.channels) * p.channel;
  // Axes that there are not have one element, which the first neighbour is.
  const int taps = p.mode == SAMPLE_NEAREST ? 1 : p.mode == SAMPLE_LINEAR ? 2 : 4;
  auto along = [&](int k) { return SampledAxis(p, k < AXES - p.axes ? 0.f : to_float(grid[(AXES - 1 - k) * p.line[1 + AXES]]), p.size[k]); };
  const SampledAxis a = along(0), b = along(1), c = along(2);
  float sum = 0.f, w0 = 1.f, w1 = 1.f, w2;
  for (int i = 0; i < (p.axes > 2 ? taps : 1); i++) {
    const int i0 = p.axes > 2 ? a.tap(p, i, w0) : 0;
    if (i0 < 0) continue;
    for (int j = 0; j < (p.axes > 1 ? taps : 1); j++) {
      const int i1 = p.axes > 1 ? b.tap(p, j, w1) : 0;
      if (i1 < 0) continue;
      for (int k = 0; k < taps; k++) {
        const int i2 = c.tap(p, k, w2);
        if (i2 >= 0) sum += w0 * w1 * w2 * to_float(x[i0 * p.axis[0] + i1 * p.axis[1] + i2 * p.axis[2]]);
      }
    }
  }
  ((T*)p.y)[n] = from_float<T>(sum);
}
KERNEL __launch_bounds__(256) void grid_sample(const __grid_constant__ Sample p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    switch (p.kind) {
    case F32: sample_at<float>(p, n); break;
    case F16: sample_at<__half>(p, n); break;
    case BF16: sample_at<__nv_bfloat16>(p, n); break;
    }
  }
}

// top_k counts, for each element of a line, how many come before it, which is its position in the result. A NaN comes before every number.
struct TopK {
  void *y, *positions, *x;
  i64 total, inner;
  int size, k, kind, smallest;
};
template <class T> DI i64 order(T x) {
  float v = to_float(x);
  int bits = __float_as_int(v);
  return v != v ? -(1ll << 62) : bits < 0 ? -(bits & 0x7fffffff) : bits;
}
template <> DI i64 order<int>(int x) { return x; }
template <> DI i64 order<i64>(i64 x) { return x; }
template <class T> DI void top_at(const TopK& p, i64 n) {
  const i64 outer = n / p.inner / p.size, column = n % p.inner;
  const int position = (int)(n / p.inner % p.size);
  const T* line = (const T*)p.x + outer * p.size * p.inner + column;
  const i64 own = order<T>(line[position * p.inner]);
  int rank = 0;
#pragma unroll 4
  for (int j = 0; j < p.size; j++) {
    i64 other = order<T>(line[j * p.inner]);
    rank += (p.smallest ? other < own : own < other) || (other == own && j < position);
  }
  if (rank >= p.k) return;
  const i64 to = (outer * p.k + rank) * p.inner + column;
  ((T*)p.y)[to] = line[position * p.inner];
  ((i64*)p.positions)[to] = position;
}
KERNEL __launch_bounds__(256) void top_k(const __grid_constant__ TopK p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    switch (p.kind) {
    case F32: top_at<float>(p, n); break;
    case F16: top_at<__half>(p, n); break;
    case BF16: top_at<__nv_bfloat16>(p, n); break;
    case I32: top_at<int>(p, n); break;
    case I64: top_at<i64>(p, n); break;
    }
  }
}
