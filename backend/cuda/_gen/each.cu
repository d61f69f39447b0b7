// Elementwise expressions, and everything that only moves elements. One kernel runs them all: the expression is a program that
// every thread interprets for its elements, alike in all threads. What it costs is hidden by memory for the few instructions
// that expressions have after fusion.
#include "common.cuh"

// Instructions, in the order of the table in elementwise.go. Those before OP_INT compute in float32, the others in int64,
// wrapped to the kind of the result.
enum Op {
  OP_NEG, OP_ABS, OP_EXP, OP_LOG, OP_SQRT, OP_RECIPROCAL, OP_ERF, OP_TANH, OP_SIGMOID, OP_RELU, OP_LEAKY_RELU, OP_ELU,
  OP_SOFTPLUS, OP_SOFTSIGN, OP_HARD_SIGMOID, OP_HARD_SWISH, OP_GELU, OP_GELU_TANH, OP_SILU, OP_MISH, OP_SELU, OP_CELU,
  OP_THRESHOLDED_RELU, OP_SHRINK, OP_CLAMP, OP_SIN, OP_COS, OP_TAN, OP_ASIN, OP_ACOS, OP_ATAN, OP_SINH, OP_COSH, OP_ASINH, OP_ACOSH, OP_ATANH,
  OP_FLOOR, OP_CEIL, OP_ROUND, OP_SIGN, OP_IS_NAN, OP_IS_INF, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_POW, OP_MOD, OP_FMOD, OP_MAX,
  OP_MIN, OP_EQUAL, OP_LESS, OP_LESS_OR_EQUAL, OP_GREATER, OP_GREATER_OR_EQUAL, OP_PRELU, OP_NARROW, OP_TO_INT, OP_TO_BOOL,
  OP_INT,
  OP_INT_NEG = OP_INT, OP_INT_ABS, OP_INT_SIGN, OP_INT_RELU, OP_INT_NOT, OP_INT_ADD, OP_INT_SUB, OP_INT_MUL, OP_INT_DIV,
  OP_INT_MOD, OP_INT_FMOD, OP_INT_MAX, OP_INT_MIN, OP_INT_AND, OP_INT_OR, OP_INT_XOR, OP_INT_EQUAL, OP_INT_LESS,
  OP_INT_LESS_OR_EQUAL, OP_INT_GREATER, OP_INT_GREATER_OR_EQUAL, OP_INT_TO_FLOAT, OP_INT_TO_BOOL, OP_INT_WRAP, OP_NOT,
  OP_SELECT, OP_QUANTIZE, OP_DEQUANTIZE
};

struct Instruction {
  int op, kind;     // of the result
  int a, b, c, args; // values: operands, then results of instructions; how many of them
  float alpha, beta;
};

const int MAX_IN = 8, MAX_CODE = 32;

struct Each {
  int count, rank, operands, instructions;
  int size[MAX_RANK];
  Operand y, x[MAX_IN];
  Instruction code[MAX_CODE];
};

union Value {
  float f;
  i64 i;
};

DI Value load(const void* p, int kind, i64 at) {
  Value v;
  v.i = 0;
  switch (kind) {
  case F32: v.f = ((const float*)p)[at]; break;
  case F16: v.f = __half2float(((const __half*)p)[at]); break;
  case BF16: v.f = __bfloat162float(((const __nv_bfloat16*)p)[at]); break;
  case I64: v.i = ((const i64*)p)[at]; break;
  case I32: v.i = ((const int*)p)[at]; break;
  case U32: v.i = ((const uint32_t*)p)[at]; break;
  case I16: v.i = ((const int16_t*)p)[at]; break;
  case U16: v.i = ((const uint16_t*)p)[at]; break;
  case I8: v.i = ((const int8_t*)p)[at]; break;
  default: v.i = ((const uint8_t*)p)[at]; break;
  }
  return v;
}

DI void store(void* p, int kind, i64 at, Value v) {
  switch (kind) {
  case F32: ((float*)p)[at] = v.f; break;
  case F16: ((__half*)p)[at] = __float2half_rn(v.f); break;
  case BF16: ((__nv_bfloat16*)p)[at] = __float2bfloat16_rn(v.f); break;
  case I64: ((i64*)p)[at] = v.i; break;
  case I32: case U32: ((uint32_t*)p)[at] = (uint32_t)v.i; break;
  case I16: case U16: ((uint16_t*)p)[at] = (uint16_t)v.i; break;
  default: ((uint8_t*)p)[at] = (uint8_t)v.i; break;
  }
}

DI i64 wrap(int kind, i64 x) {
  switch (kind) {
  case I32: return (int)x;
  case U32: return (uint32_t)x;
  case I16: return (int16_t)x;
  case U16: return (uint16_t)x;
  case I8: return (int8_t)x;
  case U8: return (uint8_t)x;
  }
  return x;
}

DI float sigmoid(float x) { return x >= 0 ? 1.f / (1.f + expf(-x)) : expf(x) / (1.f + expf(x)); }
DI float softplus(float x) { return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))); }
DI float clamp01(float x) { return x < 0.f ? 0.f : x > 1.f ? 1.f : x; }
DI float floor_mod(float x, float y) {
  float r = fmodf(x, y);
  return r != 0.f && (r < 0.f) != (y < 0.f) ? r + y : r;
}

DI float compute(const Instruction& q, float x, float y) {
  switch (q.op) {
  case OP_NEG: return -x;
  case OP_ABS: return fabsf(x);
  case OP_EXP: return expf(x);
  case OP_LOG: return logf(x);
  case OP_SQRT: return sqrtf(x);
  case OP_RECIPROCAL: return 1.f / x;
  case OP_ERF: return erff(x);
  case OP_TANH: return tanhf(x);
  case OP_SIGMOID: return sigmoid(x);
  case OP_RELU: return relu(x);
  case OP_LEAKY_RELU: return x < 0.f ? q.alpha * x : x;
  case OP_ELU: return x < 0.f ? q.alpha * expm1f(x) : x;
  case OP_SOFTPLUS: return softplus(x);
  case OP_SOFTSIGN: return x / (1.f + fabsf(x));
  case OP_HARD_SIGMOID: return clamp01(q.alpha * x + q.beta);
  case OP_HARD_SWISH: return x * clamp01(x / 6.f + 0.5f);
  case OP_GELU: return gelu(x);
  case OP_GELU_TANH: return gelu_tanh(x);
  case OP_SILU: return x * sigmoid(q.alpha * x);
  case OP_MISH: return x * tanhf(softplus(x));
  case OP_SELU: return q.beta * (x <= 0.f ? q.alpha * expm1f(x) : x);
  case OP_CELU: return x < 0.f ? q.alpha * expm1f(x / q.alpha) : x;
  case OP_THRESHOLDED_RELU: return x > q.alpha ? x : 0.f;
  case OP_SHRINK: return x < -q.alpha ? x + q.beta : x > q.alpha ? x - q.beta : 0.f;
  case OP_CLAMP: x = x < q.alpha ? q.alpha : x; return x > q.beta ? q.beta : x;
  case OP_SIN: return sinf(x);
  case OP_COS: return cosf(x);
  case OP_TAN: return tanf(x);
  case OP_ASIN: return asinf(x);
  case OP_ACOS: return acosf(x);
  case OP_ATAN: return atanf(x);
  case OP_SINH: return sinhf(x);
  case OP_COSH: return coshf(x);
  case OP_ASINH: return asinhf(x);
  case OP_ACOSH: return acoshf(x);
  case OP_ATANH: return atanhf(x);
  case OP_FLOOR: return floorf(x);
  case OP_CEIL: return ceilf(x);
  case OP_ROUND: return rintf(x);
  case OP_SIGN: return x > 0.f ? 1.f : x < 0.f ? -1.f : x;
  case OP_ADD: return x + y;
  case OP_SUB: return x - y;
  case OP_MUL: return x * y;
  case OP_DIV: return x / y;
  case OP_POW: return powf(x, y);
  case OP_MOD: return floor_mod(x, y);
  case OP_FMOD: return fmodf(x, y);
  case OP_MAX: return x != x || x > y ? x : y != y || y > x ? y : fmaxf(x, y);
  case OP_MIN: return x != x || x < y ? x : y != y || y < x ? y : fminf(x, y);
  case OP_PRELU: return x < 0.f ? x * y : x;
  case OP_NARROW: return q.kind == F16 ? __half2float(__float2half_rn(x)) : __bfloat162float(__float2bfloat16_rn(x));
  }
  return x;
}

DI i64 compare(int op, float x, float y, const Instruction& q) {
  switch (op) {
  case OP_IS_NAN: return x != x;
  case OP_IS_INF: return isinf(x) && (x > 0.f ? q.alpha : q.beta) != 0.f;
  case OP_EQUAL: return x == y;
  case OP_LESS: return x < y;
  case OP_LESS_OR_EQUAL: return x <= y;
  case OP_GREATER: return x > y;
  case OP_GREATER_OR_EQUAL: return x >= y;
  }
  return x != 0.f; // OP_TO_BOOL
}

DI i64 whole(int op, i64 x, i64 y) {
  switch (op) {
  case OP_INT_NEG: return -x;
  case OP_INT_ABS: return x < 0 ? -x : x;
  case OP_INT_SIGN: return (x > 0) - (x < 0);
  case OP_INT_RELU: return x < 0 ? 0 : x;
  case OP_INT_NOT: return ~x;
  case OP_INT_ADD: return x + y;
  case OP_INT_SUB: return x - y;
  case OP_INT_MUL: return x * y;
  case OP_INT_DIV: return y == 0 ? 0 : y == -1 ? -x : x / y;
  case OP_INT_FMOD: return y == 0 || y == -1 ? 0 : x % y;
  case OP_INT_MOD: {
    i64 r = y == 0 || y == -1 ? 0 : x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  }
  case OP_INT_MAX: return x > y ? x : y;
  case OP_INT_MIN: return x < y ? x : y;
  case OP_INT_AND: return x & y;
  case OP_INT_OR: return x | y;
  case OP_INT_XOR: return x ^ y;
  case OP_INT_EQUAL: return x == y;
  case OP_INT_LESS: return x < y;
  case OP_INT_LESS_OR_EQUAL: return x <= y;
  case OP_INT_GREATER: return x > y;
  case OP_INT_GREATER_OR_EQUAL: return x >= y;
  case OP_INT_TO_BOOL: return x != 0;
  case OP_NOT: return x == 0;
  }
  return x; // OP_INT_WRAP
}

DI Value apply(const Instruction& q, Value a, Value b, Value c) {
  Value v;
  v.i = 0;
  if (q.op == OP_SELECT) return a.i ? b : c;
  if (q.op == OP_QUANTIZE) { // a in units of b, with zero point c, within alpha and beta; ties to even, and NaN to alpha
    v.i = (i64)fminf(fmaxf(rintf(a.f / b.f) + (q.args > 2 ? (float)c.i : 0.f), q.alpha), q.beta);
  } else if (q.op == OP_DEQUANTIZE) {
    v.f = (float)(a.i - (q.args > 2 ? c.i : 0)) * b.f;
  } else if (q.op == OP_INT_TO_FLOAT) {
    v.f = (float)a.i;
  } else if (q.op >= OP_INT) {
    v.i = wrap(q.kind, whole(q.op, a.i, b.i));
  } else if (q.op == OP_TO_INT) { // beyond the type it saturates, as Go's reference does, and then wraps to narrower types
    bool wide = q.kind == I64;
    float x = a.f;
    if (x != x) v.i = 0;
    else if (wide) v.i = x >= 9223372036854775808.f ? 0x7fffffffffffffffll : x <= -9223372036854775808.f ? -0x7fffffffffffffffll - 1 : (i64)x;
    else v.i = wrap(q.kind, x >= 2147483648.f && q.kind != U32 ? 0x7fffffff : x <= -2147483648.f ? -0x80000000ll : (i64)x);
  } else if (q.op == OP_TO_BOOL || q.op >= OP_EQUAL && q.op <= OP_GREATER_OR_EQUAL || q.op == OP_IS_NAN || q.op == OP_IS_INF) {
    v.i = compare(q.op, a.f, b.f, q);
  } else {
    v.f = compute(q, a.f, b.f);
  }
  return v;
}

KERNEL __launch_bounds__(256) void each(const __grid_constant__ Each p) {
  for (uint32_t n = blockIdx.x * 256u + threadIdx.x; n < (uint32_t)p.count; n += gridDim.x * 256u) {
    uint32_t rest = n;
    i64 to = 0, from[MAX_IN] = {};
    for (int k = p.rank - 1; k >= 0; k--) {
      uint32_t c = rest;
      if (k > 0) c = rest % p.size[k], rest /= p.size[k];
      to += c * p.y.stride[k];
#pragma unroll
      for (int j = 0; j < MAX_IN; j++)
        if (j < p.operands) from[j] += c * p.x[j].stride[k];
    }
    Value v[MAX_IN + MAX_CODE];
#pragma unroll
    for (int j = 0; j < MAX_IN; j++)
      if (j < p.operands) v[j] = load(p.x[j].at, p.x[j].kind, from[j]);
    int last = 0;
    for (int j = 0; j < p.instructions; j++) {
      const Instruction& q = p.code[j];
      v[last = MAX_IN + j] = apply(q, v[q.a], v[q.b], v[q.c]);
    }
    store(p.y.at, p.y.kind, to, v[last]);
  }
}

// move copies elements of 1, 2, 4 or 8 bytes, or of 16 where neighbours are adjacent on both sides.
struct Move {
  int count, rank, size[MAX_RANK];
  Operand y, x; // of which kind is the width in bytes
};
template <class T> DI void move_as(const Move& p) {
  for (uint32_t n = blockIdx.x * 256u + threadIdx.x; n < (uint32_t)p.count; n += gridDim.x * 256u) {
    uint32_t rest = n;
    i64 to = 0, from = 0;
    for (int k = p.rank - 1; k >= 0; k--) {
      uint32_t c = rest;
      if (k > 0) c = rest % p.size[k], rest /= p.size[k];
      to += c * p.y.stride[k], from += c * p.x.stride[k];
    }
    ((T*)p.y.at)[to] = ((const T*)p.x.at)[from];
  }
}
KERNEL __launch_bounds__(256) void move(const __grid_constant__ Move p) {
  switch (p.y.kind) {
  case 1: move_as<uint8_t>(p); break;
  case 2: move_as<uint16_t>(p); break;
  case 4: move_as<uint32_t>(p); break;
  case 8: move_as<uint2>(p); break;
  case 16: move_as<uint4>(p); break;
  }
}
