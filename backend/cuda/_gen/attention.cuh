// What the kernels for attention share.
#pragma once
#include "common.cuh"

struct Attention {
  void *q, *k, *v, *mask, *y; // mask may be null
  i64 qs[3], ks[3], vs[3];    // strides of batch, position and head
  i64 qd, kd, vd;             // of a head's elements
  i64 ms[4];                  // mask's strides along batch, head, query and key, 0 where it is broadcast
  int batch, queries, keys, heads, groups, size, values;
  int mask_kind, kind, causal, offset, window, guard;
  float scale, cap;
};

// A score by relative position is one of count that a token has for a head; index, [positions,positions], says which for its position and another.
struct Relative {
  void* scores;          // null for none
  i64 head, token, step; // strides
  i64* index;
  Status* status;
  int positions, count;
};

// Attention within sequences: a row of four numbers for each, the first and the end of its queries and of its keys among those of all.
struct RowsAttention : Attention {
  int4* rows;
  i64* positions;          // of the keys in their sequences, null for none: by them go bounds and the mask's last two axes; its first one is of sequences
  Relative by_query, by_key;
  int sequences, limit;    // how many; positions are below limit
};
template <class P> inline constexpr bool by_sequence = false;
template <> inline constexpr bool by_sequence<RowsAttention> = true;

// The sequences of N queries of a block: query i sees keys from ends[i].x to ends[i].y, and is of sequence[i]; all these keys are from first to end.
template <int N> struct Sequences {
  int2 ends[N];
  int sequence[N], first, end;
};
// find looks the sequences of queries from q0 on up, all threads of a block together. Queries of no sequence see nothing.
template <int N> DI void find(Sequences<N>& s, const RowsAttention& p, int q0) {
  for (int i = threadIdx.x; i < N; i += blockDim.x) s.ends[i] = make_int2(0, 0), s.sequence[i] = 0;
  if (threadIdx.x == 0) s.first = p.keys, s.end = 0;
  __syncthreads();
  for (int r = threadIdx.x; r < p.sequences; r += blockDim.x) {
    int4 row = p.rows[r];
    int from = max(row.x, q0), to = min(row.y, q0 + N), lo = max(row.z, 0), hi = min(row.w, p.keys);
    if (from >= to || lo >= hi) continue;
    atomicMin(&s.first, lo), atomicMax(&s.end, hi);
    for (int i = from; i < to; i++) s.ends[i - q0] = make_int2(lo, hi), s.sequence[i - q0] = r;
  }
  __syncthreads();
}

// position_of is the position of a key in its sequence, and where queries are as many as keys of a query.
DI int position_of(const RowsAttention& p, int key) { return key < p.keys ? (int)min(max(p.positions[key], 0ll), (i64)p.limit - 1) : 0; }
DI int query_position(const RowsAttention& p, int query) { return p.positions && p.queries == p.keys ? position_of(p, query) : 0; }

template <class T> DI float mask_at(const Attention& p, i64 at) {
  return p.mask_kind == BOOL ? ((const uint8_t*)p.mask)[at] ? 0.f : -INFINITY : to_float(((const T*)p.mask)[at]);
}

// with_position returns the score of a query at position here of a sequence and a key at position there.
template <class T> DI float with_position(const RowsAttention& p, float s, int sequence, int h, int here, int there) {
  s *= p.scale;
  if (p.cap != 0.f) s = p.cap * tanhf(s / p.cap);
  if (p.mask) s += mask_at<T>(p, sequence * p.ms[0] + h * p.ms[1] + here * p.ms[2] + there * p.ms[3]);
  return p.causal && there > here || p.window > 0 && abs(there - here) >= p.window ? -INFINITY : s;
}

// relative is what scores by relative position add for a token at its own position and another.
template <class T> DI float relative(const Relative& r, int h, int token, int own, int other) {
  if (!r.scores) return 0.f;
  i64 i = r.index[(i64)own * r.positions + other];
  return in_range(i, r.count, r.status) ? to_float(((const T*)r.scores)[h * r.head + token * r.token + i * r.step]) : 0.f;
}

// masked returns the score of a query and a key, −∞ where the key is excluded.
DI float masked(const Attention& p, float s, i64 b, int h, int i, int j) {
  s *= p.scale;
  if (p.cap != 0.f) s = p.cap * tanhf(s / p.cap);
  if (p.mask) {
    i64 at = b * p.ms[0] + h * p.ms[1] + i * p.ms[2] + j * p.ms[3];
    switch (p.mask_kind) {
    case BOOL: s = ((const uint8_t*)p.mask)[at] ? s : -INFINITY; break;
    case F16: s += __half2float(((const __half*)p.mask)[at]); break;
    case BF16: s += __bfloat162float(((const __nv_bfloat16*)p.mask)[at]); break;
    default: s += ((const float*)p.mask)[at];
    }
  }
  int position = p.offset ? i + p.keys - p.queries : i;
  if (p.causal && j > position || p.window > 0 && abs(j - position) >= p.window) s = -INFINITY;
  return s;
}
