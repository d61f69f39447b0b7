//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/internal/oippb"
)

// hostile is how often each attack is made; 0 makes those once that quick lists. .ci/run makes each once, and .ci/hostile makes more.
// messages is how many changed messages of gRPC are sent to each method.
var (
	hostile  = flag.Int("hostile", 0, "how often each attack on a server is made; 0 for one of each kind")
	messages = flag.Int("messages", 200, "changed messages of gRPC to each method")
	attack   = flag.String("attack", "", "of a child of the test: the attack that it makes, on -target")
	targetOf = flag.String("target", "", "the URL and the address of gRPC of the server that is attacked")
)

const (
	hostileLimit = 256 << 20 // of --memory-limit
	hostileMore  = 64 << 20  // by which the process may pass it
	hostileBody  = 30 << 20
	hostileUnits = 2000 // which are no more texts than a request may have
)

// A body is head, that many bytes of a unit again and again, and tail: it takes no memory here.
func body(head, unit string, size int, tail string) io.Reader {
	return io.MultiReader(strings.NewReader(head), io.LimitReader(&repeated{unit: unit}, int64(size/len(unit)*len(unit))),
		strings.NewReader(tail))
}

type repeated struct {
	unit string
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k := copy(b[n:], r.unit[r.at:])
		n += k
		r.at = (r.at + k) % len(r.unit)
	}
	return n, nil
}

// A target is a server that is attacked, in a separate process.
type target struct {
	t           *testing.T
	url, grpc   string
	bad, good   *http.Client // of two peers
	badC, goodC *grpc.ClientConn
}

func newTarget(t *testing.T, url, grpc string) *target {
	x := &target{t: t, url: url, grpc: grpc,
		bad:  &http.Client{Transport: &http.Transport{DialContext: from("127.0.0.1")}},
		good: &http.Client{Transport: &http.Transport{DialContext: from("127.0.0.2")}}}
	x.badC, x.goodC = x.dial("127.0.0.1"), x.dial("127.0.0.2")
	return x
}

func from(peer string) func(ctx context.Context, network, to string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(peer)}}).DialContext
}

func (x *target) dial(peer string) *grpc.ClientConn {
	c, err := grpc.NewClient(x.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return from(peer)(ctx, "tcp", to) }))
	require.NoError(x.t, err)
	x.t.Cleanup(func() { c.Close() })
	return c
}

// send sends a body, and forgets the answer if it is no error of the server.
func (x *target) send(path string, b io.Reader, header ...string) {
	r, err := http.NewRequestWithContext(x.t.Context(), "POST", x.url+path, b)
	require.NoError(x.t, err)
	r.Header.Set("Authorization", "Bearer k")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := x.bad.Do(r)
	if err != nil { // the server has ended the connection
		return
	}
	defer a.Body.Close()
	io.Copy(io.Discard, a.Body)
	if a.StatusCode >= 500 && a.StatusCode != http.StatusGatewayTimeout {
		x.t.Errorf("%s: %s", path, a.Status)
	}
}

// refused sends a body that must be an error whose text contains says. Host is a header, too.
func (x *target) refused(path string, b io.Reader, says string, header ...string) {
	r, err := http.NewRequestWithContext(x.t.Context(), "POST", x.url+path, b)
	require.NoError(x.t, err)
	r.Header.Set("Authorization", "Bearer k")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	a, err := x.bad.Do(r)
	require.NoError(x.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(x.t, err)
	if a.StatusCode != http.StatusTooManyRequests { // where others of the attack are in the way
		require.Contains(x.t, []int{400, 403, 413, 422}, a.StatusCode, "%s", text)
		require.Contains(x.t, string(text), says)
	}
}

// A neighbour asks over HTTP and gRPC, with a new connection each time, so that one that is cut is not hidden by another attempt.
type neighbour struct {
	x     *target
	mu    sync.Mutex
	waits []time.Duration
}

func (n *neighbour) ask() error {
	begun := time.Now()
	body := strings.NewReader(`{"inputs": "a cat sits on the mat"}`)
	r, err := http.NewRequestWithContext(n.x.t.Context(), "POST", n.x.url+"/embed", body)
	if err != nil {
		return err
	}
	r.Close = true
	r.Header.Set("Authorization", "Bearer k")
	a, err := n.x.good.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", a.Status, text)
	}
	n.mu.Lock()
	n.waits = append(n.waits, time.Since(begun))
	n.mu.Unlock()
	if err != nil {
		return err
	}
	return n.x.goodC.Invoke(n.x.t.Context(), "/inference.GRPCInferenceService/ServerReady", &oippb.ServerReadyRequest{},
		new(oippb.ServerReadyResponse))
}

// waited are the waits of the requests since one.
func (n *neighbour) waited(first int) waits {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.waits[first:]))
}

// waits ascend.
type waits []time.Duration

func (w waits) percentile(p int) time.Duration { return w[(len(w)-1)*p/100] }

func (w waits) String() string {
	if len(w) == 0 {
		return "no requests"
	}
	return fmt.Sprintf("%d requests, p50 %v, p99 %v", len(w), w.percentile(50), w.percentile(99))
}

// raw opens a connection and sends what begins a request.
func (x *target) raw(begin string) net.Conn {
	c, err := from("127.0.0.1")(x.t.Context(), "tcp", strings.TrimPrefix(x.url, "http://"))
	if err != nil {
		return nil
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, begin)
	return c
}

func request(path string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: %d\r\n\r\n", path, length)
}

// each makes n attacks at a time.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// bodies are those that make much of little.
var bodies = map[string]struct{ path, head, unit, tail string }{
	"empty lists":    {"/embed", `{"inputs": [`, `[],`, `[]]}`},
	"empty texts":    {"/v1/embeddings", `{"input": [`, `"",`, `""]}`},
	"ids":            {"/v1/embeddings", `{"input": [`, `5,`, `5]}`},
	"ids to decode":  {"/decode", `{"ids": [`, `5,`, `5]}`},
	"pairs":          {"/models/classify/predict", `{"inputs": [`, `["",""],`, `[""]]}`},
	"sentences":      {"/similarity", `{"inputs": {"source_sentence": "a", "sentences": [`, `"",`, `""]}}`},
	"documents":      {"/models/rerank/rerank", `{"query": "a", "documents": [`, `{"text":""},`, `""]}`},
	"objects of OIP": {"/v2/models/minilm/infer", `{"inputs": [`, `{},`, `{}]}`},
	"numbers of OIP": {"/v2/models/minilm/infer", `{"inputs": [{"name": "input_ids", "shape": [1], "datatype": "FP64", "data": [`, `0,`,
		`0]}]}`},
	"strings of OIP": {"/v2/models/minilm/infer", `{"inputs": [{"name": "input_ids", "shape": [1], "datatype": "BYTES", "data": [`,
		`"",`, `""]}]}`},
	"sizes of OIP":     {"/v2/models/minilm/infer", `{"inputs": [{"name": "x", "shape": [`, `1,`, `1], "datatype": "INT64"}]}`},
	"options":          {"/api/embed", `{"model": "minilm", "input": "a", "options": {"x": [`, `{"a":[]},`, `1]}}`},
	"a model's name":   {"/v1/embeddings", `{"model": "`, `x`, `", "input": "a"}`},
	"a field's name":   {"/embed", `{"`, `x`, `": 1}`},
	"a prompt's name":  {"/embed", `{"inputs": "a", "prompt_name": "`, `é`, `"}`},
	"a long text":      {"/tokenize", `{"inputs": "`, `a cat `, `"}`},
	"a long word":      {"/embed", `{"inputs": "`, `a`, `"}`},
	"escapes":          {"/tokenize", `{"inputs": "`, `\u0000`, `"}`},
	"many to tokenize": {"/tokenize", `{"inputs": ["a"`, `,"` + strings.Repeat("a cat ", 2500) + `"`, `]}`},
	"many vectors":     {"/embed_all", `{"inputs": ["a"`, `,"` + strings.Repeat("cat ", 200) + `"`, `]}`},
	"sparse":           {"/models/splade/embed_sparse", `{"inputs": ["a"`, `,"` + strings.Repeat("cat ", 200) + `"`, `]}`},
	"texts returned": {"/models/rerank/rerank", `{"query": "a", "return_text": true, "texts": ["a"`,
		`,"` + strings.Repeat("\\u0001", 2500) + `"`, `]}`},
	"a long query": {"/models/rerank/rerank", `{"texts": ["a"], "query": "`, `cat `, `"}`},
	"deep":         {"/embed", `{"parameters": `, `[`, ``},
	"spaces":       {"/embed", `{"inputs": "a"`, ` `, `}`},
	"a number":     {"/embed", `{"inputs": "a", "dimensions": `, `1`, `}`},
	"any task":     {"/", `{"inputs": [`, `"a",`, `"a"]}`},
	"labels of GLiNER": {"/models/gliner/pipeline/token-classification", `{"inputs": "Anna", "parameters": {"candidate_labels": [`, `"a",`,
		`"b"]}}`},
	"a label of GLiNER": {"/models/gliner/pipeline/token-classification", `{"inputs": "Anna", "parameters": {"candidate_labels": ["`,
		`a b `, `"]}}`},
	"spans of GLiNER": {"/models/gliner-words/pipeline/token-classification", `{"parameters": {"threshold": 1e-9, "flat_ner": false,
		"multi_label": true, "candidate_labels": ["a"` + manyLabels + `]}, "inputs": ["a"`,
		`,"` + strings.Repeat("Anna ", 300) + `"`, `]}`},
	"labels and texts": {"/models/nli/pipeline/zero-shot-classification", `{"parameters": {"candidate_labels": ["a"` +
		strings.Repeat(`,"b"`, 2000) + `]}, "inputs": [["a"]`, `,["a"]`, `]}`},
	"a template": {"/models/nli/pipeline/zero-shot-classification", `{"parameters": {"candidate_labels": ["` +
		strings.Repeat("label", 1000) + `"], "hypothesis_template": "`, `{}`, `"}, "inputs": "a"}`},
	"windows of answers": {"/models/qa/pipeline/question-answering", `{"parameters": {"doc_stride": 6, "max_seq_len": 12,
		"top_k": 1000000000, "max_answer_len": 1000000000}, "inputs": {"question": "who?", "context": "`, `a cat `, `"}}`},
	"windows of entities": {"/models/ner/pipeline/token-classification", `{"parameters": {"stride": 100, "aggregation_strategy": "none"},
		"inputs": "`, `Anna `, `"}`},
	"masks": {"/models/splade/pipeline/fill-mask", `{"parameters": {"top_k": 1000000000}, "inputs": ["[MASK]"`, `,"` +
		strings.Repeat("[MASK] ", 50) + `"`, `]}`},
	"words for a mask": {"/models/splade/pipeline/fill-mask", `{"inputs": "[MASK]", "parameters": {"targets": [`, `"cat",`, `"cat"]}}`},
	"vectors to rank":  {"/models/colbert/rerank", `{"query": "a", "texts": ["a"`, `,"` + strings.Repeat("cat ", 200) + `"`, `]}`},
	"types of vectors": {"/v2/embed", `{"texts": ["a"` + strings.Repeat(`,"a"`, 1000) + `], "embedding_types": ["binary"`, `,"ubinary"`,
		`]}`},
	"parts of a text": {"/v2/embed", `{"inputs": [{"content": [`, `{"type": "text", "text": "a"},`,
		`{"type": "text", "text": "a"}]}]}`},
	"ids there are none of": {"/decode", `{"ids": [[`, `9223372036854775807,-9223372036854775808,`, `-1]]}`},
}

var manyLabels = func() (text string) {
	for i := range 60 {
		text += fmt.Sprintf(`,"%c%c"`, 'a'+i%26, 'a'+i/26)
	}
	return text
}()

// frame is one of HTTP/2 (RFC 9113), whose payload has size bytes, however many follow.
func frame(kind, flags byte, stream uint32, size int, payload string) string {
	head := []byte{byte(size >> 16), byte(size >> 8), byte(size), kind, flags}
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

const (
	data2, headers2, reset2, settings2, ping2, more2 = 0, 1, 3, 4, 6, 9 // kinds of frames
	endStream, endHeaders                            = 1, 4

	getPage = "\x82\x86\x84\x41\x09localhost" // GET http://localhost/ by HPACK's table
)

// http2 opens connections, n at a time on both ports, and sends what begins one of HTTP/2, with windows of that many bytes for answers.
func (x *target) http2(n int, window uint32, then func(c net.Conn)) {
	var open []net.Conn
	for i := range n {
		y := *x
		if i%2 == 1 {
			y.url = x.grpc
		}
		setting := string(binary.BigEndian.AppendUint32([]byte{0, 4}, window))
		if c := y.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings2, 0, 0, len(setting), setting)); c != nil {
			open = append(open, c)
			then(c)
		}
	}
	time.Sleep(2 * time.Second)
	for _, c := range open {
		c.Close()
	}
}

// attacks on a server, of one peer.
var attacks = map[string]func(x *target){
	"bombs of images": func(x *target) { // of 40 megapixels, which are refused, and of sizes that queue for memory
		const path = "/models/vit/pipeline/image-feature-extraction"
		var files, list []string
		for _, size := range []image.Point{{8000, 5000}, {4000, 1000}, {1050, 4000}} {
			var b bytes.Buffer
			require.NoError(x.t, (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, image.NewNRGBA(image.Rectangle{Max: size})))
			files = append(files, b.String())
			list = append(list, strconv.Quote(base64.StdEncoding.EncodeToString(b.Bytes())))
		}
		x.refused(path, strings.NewReader(files[0]), "needs more memory than one request may use", "Content-Type", "image/png")
		each(64, func(i int) {
			x.send(path, strings.NewReader(files[i%3]), "Content-Type", "image/png")
			if i%8 == 0 {
				x.send(path, strings.NewReader(`{"inputs": [`+strings.Repeat(list[1+i/8%2]+",", 5)+list[i/8%3]+`]}`))
			}
		})
	},
	"announced and not sent": func(x *target) {
		each(16, func(int) {
			if c := x.raw(request("/embed", 32<<20) + "{"); c != nil {
				time.Sleep(time.Second)
				c.Close()
			}
		})
	},
	"sent and not finished": func(x *target) {
		each(8, func(int) {
			if c := x.raw(request("/embed", 32<<20) + `{"inputs": ["`); c != nil {
				io.CopyN(c, &repeated{unit: "a cat "}, 16<<20)
				time.Sleep(time.Second)
				c.Close()
			}
		})
	},
	"answers that are not read": func(x *target) {
		each(6, func(int) {
			text := `{"inputs": ["` + strings.Repeat(strings.Repeat("cat ", 100)+`", "`, 250) + `"]}`
			if c := x.raw(request("/embed_all", len(text)) + text); c != nil {
				c.Read(make([]byte, 1))
				time.Sleep(2 * time.Second)
				c.Close()
			}
		})
	},
	"connections": func(x *target) {
		var open []net.Conn
		for range 1500 {
			if c := x.raw("POST /embed HTTP/1.1\r\n"); c != nil {
				open = append(open, c)
			}
		}
		for _, c := range open {
			c.Close()
		}
	},
	"heads": func(x *target) {
		each(16, func(int) {
			if c := x.raw("GET / HTTP/1.1\r\nX: "); c != nil {
				io.CopyN(c, &repeated{unit: "x"}, 8<<20)
				c.Close()
			}
		})
	},
	"bodies without a key": func(x *target) {
		each(16, func(int) {
			c := x.raw(strings.Replace(request("/embed", 32<<20), "Authorization: Bearer k\r\n", "", 1))
			if c == nil {
				return
			}
			defer c.Close()
			answer := make([]byte, len("HTTP/1.1 401"))
			io.ReadFull(c, answer) // before the body
			require.Equal(x.t, "HTTP/1.1 401", string(answer))
		})
	},
	"a byte at a time": func(x *target) {
		each(16, func(int) {
			begin := strings.Replace(request("/embed", 0), "Content-Length: 0", "Transfer-Encoding: chunked", 1)
			if c := x.raw(begin); c != nil {
				for range 20_000 {
					if _, err := io.WriteString(c, "1\r\n \r\n"); err != nil {
						break
					}
				}
				c.Close()
			}
		})
	},
	"requests in a row": func(x *target) { // nothing reads their answers
		each(8, func(int) {
			if c := x.raw(""); c != nil {
				c.SetDeadline(time.Now().Add(5 * time.Second)) // long after the server stopped reading
				text := `{"inputs": "` + strings.Repeat("cat ", 500) + `"}`
				for range 2000 {
					if _, err := io.WriteString(c, request("/tokenize", len(text))+text); err != nil {
						break
					}
				}
				c.Close()
			}
		})
	},
	"no end": func(x *target) {
		each(4, func(int) {
			x.send("/embed", io.LimitReader(&repeated{unit: " "}, 48<<20))
		})
	},
	"binary strings": func(x *target) {
		const n = 4 << 20
		head := fmt.Sprintf(`{"inputs": [{"name": "input_ids", "shape": [%d], "datatype": "BYTES",
			"parameters": {"binary_data_size": %d}}]}`, n, 4*n)
		each(4, func(int) {
			x.send("/v2/models/minilm/infer", body(head, "\x00\x00\x00\x00", 4*n, ""), "Inference-Header-Content-Length",
				strconv.Itoa(len(head)))
		})
	},
	"large answers of OIP": func(x *target) {
		in := func(name string, value int) string {
			return fmt.Sprintf(`{"name": %q, "shape": [2000, 100], "datatype": "INT64", "data": [%s%d]}`, name,
				strings.Repeat(fmt.Sprintf("%d,", value), 199999), value)
		}
		text := `{"inputs": [` + in("input_ids", 5) + "," + in("attention_mask", 1) + "," + in("token_type_ids", 0) + `]}`
		each(3, func(int) { x.send("/v2/models/minilm/infer", strings.NewReader(text)) })
	},
	"frames announced": func(x *target) {
		x.http2(900, 1<<16, func(c net.Conn) { io.WriteString(c, frame(data2, 0, 1, 1<<20, "")) })
	},
	"pages without a window": func(x *target) { // none of their bytes can be sent
		x.http2(900, 0, func(c net.Conn) {
			for i := range uint32(60) {
				io.WriteString(c, frame(headers2, endStream|endHeaders, 2*i+1, len(getPage), getPage))
			}
		})
	},
	"requests that are reset": func(x *target) {
		x.http2(8, 1<<16, func(c net.Conn) {
			for i := range uint32(50_000) {
				if _, err := io.WriteString(c, frame(headers2, endStream|endHeaders, 2*i+1, len(getPage), getPage)+
					frame(reset2, 0, 2*i+1, 4, "\x00\x00\x00\x08")); err != nil {
					break
				}
			}
		})
	},
	"headers of HTTP/2 without an end": func(x *target) {
		x.http2(8, 1<<16, func(c net.Conn) {
			field := strings.Repeat("\x00\x01a\x7f\x81\x1e"+strings.Repeat("b", 285), 50)
			_, err := io.WriteString(c, frame(headers2, endStream, 1, len(getPage), getPage))
			for range 2000 {
				if err == nil {
					_, err = io.WriteString(c, frame(more2, 0, 1, len(field), field))
				}
			}
		})
	},
	"pings": func(x *target) { // whose answers nothing reads
		x.http2(8, 1<<16, func(c net.Conn) {
			for range 100_000 {
				if _, err := io.WriteString(c, frame(ping2, 0, 0, 8, "12345678")); err != nil {
					break
				}
			}
		})
	},
	"gRPC without a key": func(x *target) {
		data := make([]byte, 30<<20)
		each(6, func(int) {
			var err error
			// Connections of the attack before may count until now, and the reset of a stream may overtake its answer.
			modeltest.Wait(func() bool {
				err = x.badC.Invoke(x.t.Context(), inferMethod, &oippb.ModelInferRequest{RawInputContents: [][]byte{data}},
					new(oippb.ModelInferResponse))
				return !slices.Contains([]codes.Code{codes.Unavailable, codes.Internal}, status.Code(err))
			})
			require.Equal(x.t, codes.Unauthenticated, status.Code(err))
		})
		var streams []grpc.ClientStream
		ctx, cancel := context.WithCancel(x.t.Context())
		defer cancel()
		for range 80 {
			if s, err := x.badC.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
				"/inference.GRPCInferenceService/ServerLive"); err == nil {
				streams = append(streams, s)
			}
		}
		require.NoError(x.t, x.goodC.Invoke(ctx, "/inference.GRPCInferenceService/ServerLive", &oippb.ServerLiveRequest{},
			new(oippb.ServerLiveResponse)))
		_ = streams
	},
	"gRPC messages that unpack to much": func(x *target) { // without a key
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
		require.NoError(x.t, err)
		_, err = io.CopyN(z, &repeated{unit: strings.Repeat("\x00", 1<<16)}, 900<<20)
		require.NoError(x.t, err)
		require.NoError(x.t, z.Close())
		encoding.RegisterCompressor(bomb(packed.Bytes()))
		each(4, func(int) {
			for _, method := range []string{"ServerLive", "ServerReady"} {
				err := x.badC.Invoke(x.t.Context(), "/inference.GRPCInferenceService/"+method, &oippb.ModelInferRequest{ModelName: "x"},
					new(oippb.ServerLiveResponse), grpc.UseCompressor("gzip"))
				require.Equal(x.t, codes.Unimplemented, status.Code(err), "%v", err)
			}
		})
	},
	"sizes that wrap around": func(x *target) {
		each(16, func(i int) {
			for k := range 100 {
				n := []uint64{1<<59 - 1, 1<<59 - 1 - uint64(k), 1<<62 + uint64(k), 1<<63 - 1}[i%4]
				head := fmt.Sprintf(`{"inputs": [{"name": "x", "shape": [%d], "datatype": "UINT8", "parameters":
					{"binary_data_size": 64}}]}`, n)
				x.refused("/v2/models/minilm/infer", body(head, "\x00", 64, ""), "field", "Inference-Header-Content-Length",
					strconv.Itoa(len(head)))
			}
		})
	},
	"numbers that do not fit": func(x *target) {
		const infer = `{"inputs": [{"name": "x", "shape": [1], "datatype": "%s", "data": [%s]}]}`
		for datatype, number := range map[string]string{"INT8": "300", "UINT8": "256", "UINT16": "-1", "INT32": "2147483648", "BOOL": "7",
			"FP16": "65520", "FP32": "1e39", "FP64": "1e309", "UINT64": "18446744073709551616"} {
			x.refused("/v2/models/minilm/infer", strings.NewReader(fmt.Sprintf(infer, datatype, number)), number+" is not a value of type")
		}
		head := `{"inputs": [{"name": "x", "shape": [1], "datatype": "BOOL", "parameters": {"binary_data_size": 1}}]}`
		x.refused("/v2/models/minilm/infer", strings.NewReader(head+"\x07"), "7 is not a value of type bool",
			"Inference-Header-Content-Length", strconv.Itoa(len(head)))
		key := metadata.AppendToOutgoingContext(x.t.Context(), "authorization", "Bearer k")
		for datatype, c := range map[string]*oippb.InferTensorContents{"INT8": {IntContents: []int32{300}},
			"UINT8": {UintContents: []uint32{256}}, "INT16": {IntContents: []int32{1 << 20}}} {
			err := x.badC.Invoke(key, inferMethod, &oippb.ModelInferRequest{ModelName: "minilm",
				Inputs: []*oippb.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: datatype, Shape: []int64{1}, Contents: c}}},
				new(oippb.ModelInferResponse))
			require.ErrorContains(x.t, err, "is not a value of type")
		}
	},
	"pages of other sites": func(x *target) {
		for _, header := range [][]string{{"Host", "evil.example"}, {"Host", "evil.example:8080", "Origin", "http://evil.example:8080"},
			{"Host", "localhost.evil.example"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
			{"Origin", "http://localhost:1", "Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}} {
			for _, path := range []string{"/embed", "/v2/models/minilm/infer", "/api/show", "/v2/repository/index"} {
				x.refused(path, strings.NewReader(`{"inputs": "a"}`), "--allow-", append(header, "Content-Type", "text/plain")...)
			}
		}
	},
	"JSON that readers differ in": func(x *target) {
		for value, says := range map[string]string{`1-2-3`: "number", `01`: "number", `"\ud834"`: "surrogate",
			`{"a": 1, "a": 2}`: "given twice",
			"\"\xff\"":         "UTF-8", `"\x"`: "escape", `[1.]`: "number", `tru`: "true"} {
			x.refused("/v1/embeddings", strings.NewReader(`{"input": "a", "user": `+value+`}`), says)
			x.refused("/api/embed", strings.NewReader(`{"model": "minilm", "input": "a", "options": {"x": [`+value+`]}}`), says)
			x.refused("/models/rerank/rerank", strings.NewReader(`{"query": "a", "documents": [{"text": "a", "id": `+value+`}]}`), says)
		}
		x.refused("/models/rerank/rerank", strings.NewReader(`{"query": "a", "documents": [{"text": "a", "text": "b"}]}`), "given twice")
		x.send("/v1/embeddings", body(`{"input": "a", "user": {"x": 0`, `,"\u0061":{}`, hostileBody, `}}`))
		x.send("/v1/embeddings", io.MultiReader(strings.NewReader(`{"input": "a", "user": {"x": 0`), &names{}))
	},
	"texts of strangers": func(x *target) { // which share batches: each has the answer that it has alone
		routes := []string{"/models/minilm/embed", "/models/classify/predict", "/models/ner/pipeline/token-classification",
			"/models/splade/predict", "/models/splade/embed_sparse", "/models/colbert/embed_all", "/models/splade/pipeline/fill-mask"}
		answer := func(c *http.Client, i int) (status int, said any) {
			text := strings.Repeat("the cat sat on the mat with Anna ", i%3) + fmt.Sprint("dog ", i) + " [MASK]"
			r, err := http.NewRequestWithContext(x.t.Context(), "POST", x.url+routes[i%len(routes)],
				strings.NewReader(fmt.Sprintf(`{"inputs": %q}`, text)))
			require.NoError(x.t, err)
			r.Header.Set("Authorization", "Bearer k")
			a, err := c.Do(r)
			require.NoError(x.t, err)
			defer a.Body.Close()
			require.NoError(x.t, json.NewDecoder(a.Body).Decode(&said))
			return a.StatusCode, said
		}
		const texts = 20 * 7 // number of texts of each route
		var statuses [texts]int
		var alone [texts]any
		for i := range alone {
			statuses[i], alone[i] = answer(x.bad, i)
		}
		each(texts, func(i int) {
			for _, c := range []*http.Client{x.bad, x.good} {
				if status, said := answer(c, i); status != http.StatusTooManyRequests {
					require.Equal(x.t, statuses[i], status, "%v", said)
					same(x.t, alone[i], said)
				}
			}
		})
	},
	"gRPC messages": func(x *target) {
		key := metadata.AppendToOutgoingContext(x.t.Context(), "authorization", "Bearer k")
		small := &oippb.ModelInferRequest_InferInputTensor{Name: "input_ids", Datatype: "INT64", Shape: []int64{1},
			Contents: &oippb.InferTensorContents{Int64Contents: make([]int64, 8<<20)}}
		for _, q := range []*oippb.ModelInferRequest{{ModelName: "minilm", Inputs: []*oippb.ModelInferRequest_InferInputTensor{small}},
			{ModelName: "minilm", Inputs: slices.Repeat([]*oippb.ModelInferRequest_InferInputTensor{{}}, 1<<20)},
			{ModelName: "minilm", RawInputContents: make([][]byte, 1<<20)}, {ModelName: strings.Repeat("x", 20<<20)}} {
			each(2, func(int) {
				err := x.badC.Invoke(key, inferMethod, q, new(oippb.ModelInferResponse))
				require.NotContains(x.t, []codes.Code{codes.OK, codes.Unknown}, status.Code(err), "%.100v", err)
			})
		}
	},
}

// quick lists the attacks of the suite: a body for each account that bounds bodies (values, ids, tensors, candidates, vectors, prompts),
// and all other attacks but those that take seconds and meet the bound of another one.
func quick() []string {
	names := []string{"empty lists", "ids to decode", "numbers of OIP", "spans of GLiNER", "many vectors", "a template"}
	for name := range attacks {
		if !slices.Contains([]string{"sent and not finished", "a byte at a time", "requests in a row", "no end", "large answers of OIP",
			"frames announced", "requests that are reset", "headers of HTTP/2 without an end", "pings"}, name) {
			names = append(names, name)
		}
	}
	return names
}

// same compares two values of JSON. Numbers may differ in the last places, because a batch rounds as its size does.
func same(t *testing.T, want, got any) {
	switch want := want.(type) {
	case float64:
		require.InDelta(t, want, got, 1e-4)
	case []any:
		require.Len(t, got, len(want))
		for i := range want {
			same(t, want[i], got.([]any)[i])
		}
	case map[string]any:
		require.Len(t, got, len(want))
		for name := range want {
			same(t, want[name], got.(map[string]any)[name])
		}
	default:
		require.Equal(t, want, got)
	}
}

// A bomb is a compressor of one message.
type bomb []byte

func (bomb) Name() string                                   { return "gzip" }
func (b bomb) Compress(w io.Writer) (io.WriteCloser, error) { return bombWriter{b, w}, nil }
func (bomb) Decompress(io.Reader) (io.Reader, error)        { return nil, io.EOF }

type bombWriter struct {
	packed []byte
	to     io.Writer
}

func (bombWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w bombWriter) Close() error              { _, err := w.to.Write(w.packed); return err }

// names are fields that differ, as many as a body may have.
type names struct {
	n, all int
	left   string
}

func (r *names) Read(b []byte) (int, error) {
	if r.all > hostileBody {
		return 0, io.EOF
	}
	if r.left == "" {
		r.left = fmt.Sprintf(`,"%x":0`, r.n)
		r.n++
	}
	n := copy(b, r.left)
	r.left = r.left[n:]
	r.all += n
	return n, nil
}

const inferMethod = "/inference.GRPCInferenceService/ModelInfer"

// peak is the most memory that a process had at a time.
func peak(t *testing.T, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // not on this system
	}
	m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, m)
	kib, err := strconv.ParseInt(string(m[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}

// TestHostileClients attacks a server in all ways at hand, while a neighbour asks on: the server lives, the neighbour is answered, and
// memory stays within the limit, or little above it. It uses the loopback device alone. Attackers have separate machines. Where the
// neighbour's waits are measured, attackers are therefore processes that run when the server and the neighbour leave a processor idle.
func TestHostileClients(t *testing.T) {
	if *attack != "" {
		url, grpc, _ := strings.Cut(*targetOf, " ")
		x := newTarget(t, url, grpc)
		if b, ok := bodies[*attack]; ok {
			each(2, func(i int) {
				x.send(b.path, body(b.head, b.unit, []int{hostileBody, hostileUnits * len(b.unit)}[i], b.tail))
			})
		} else {
			attacks[*attack](x)
		}
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	args := []string{"--memory-limit", strconv.Itoa(hostileLimit), "--api-key", "k", "--grpc-address", "127.0.0.1:0",
		"--read-timeout", "3s", "--timeout", "20s"}
	for _, model := range []string{"minilm", "rerank", "classify", "splade", "colbert", "nli", "qa", "ner", "gliner", "gliner-words",
		"images/vit"} {
		args = append(args, served+model)
	}
	c, url, log := serveProcess(t, args...)
	x := newTarget(t, url, log.await(t, `grpc=(\S+)`)[1])
	ctx, cancel := context.WithCancel(t.Context())
	var wrong atomic.Value
	n := &neighbour{x: x}
	for range max(1, *hostile*100) {
		require.NoError(t, n.ask())
	}
	alone := n.waited(0)
	t.Logf("the neighbour alone: %v", alone)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := n.ask(); err != nil {
				wrong.CompareAndSwap(nil, err.Error())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	names, nice := slices.AppendSeq(slices.Collect(maps.Keys(bodies)), maps.Keys(attacks)), []string{"nice", "-n", "19"}
	if *hostile == 0 {
		names, nice = quick(), nil // a process that waits for an idle processor would not end on a busy machine
	}
	for range max(1, *hostile) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				before := len(n.waited(0))
				args := append(slices.Clip(nice), program, "-test.run", "^TestHostileClients$", "-attack", name, "-target",
					x.url+" "+x.grpc)
				said, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
				require.NoError(t, err, "%s", said)
				most := peak(t, c.Process.Pid)
				t.Logf("peak %d MiB; the neighbour: %v", most>>20, n.waited(before))
				require.LessOrEqual(t, most, int64(hostileLimit+hostileMore), "memory")
				require.Nil(t, wrong.Load(), "the neighbour")
			})
		}
	}
	cancel()
	<-done
	beside := n.waited(len(alone))
	require.NotEmpty(t, beside, "the neighbour asked nothing beside the attacks")
	t.Logf("the neighbour beside attacks: %v, p99 %.1f times that alone", beside,
		float64(beside.percentile(99))/float64(alone.percentile(99)))
	require.Nil(t, wrong.Load(), "the neighbour")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait(), "%s", log)
	require.NotContains(t, log.String(), "panic")
}

// peakOf runs a command and returns the peak of its resident memory in bytes. Linux counts the memory of this process at the time of the
// fork, and its earlier peak, as the child's. So peakOf first frees garbage and resets that peak.
func peakOf(c *exec.Cmd) (bytes int64, err error) {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // other systems have no such file
	err = c.Run()
	return c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10, err
}

// TestMutatedCalls sends messages of every method that were changed at random: what is wrong is the message, and the server lives on.
func TestMutatedCalls(t *testing.T) {
	_, log, stop := startServe(t, served+"minilm", "--grpc-address", "127.0.0.1:0")
	c := newTarget(t, "", log.await(t, `grpc=(\S+)`)[1]).badC
	ids := binary.LittleEndian.AppendUint64(nil, 5)
	q := &oippb.ModelInferRequest{ModelName: "minilm"}
	for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		q.Inputs = append(q.Inputs, &oippb.ModelInferRequest_InferInputTensor{Name: name, Datatype: "INT64", Shape: []int64{1, 1}})
		q.RawInputContents = append(q.RawInputContents, ids)
	}
	valid, err := proto.Marshal(q)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for _, method := range []string{"ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig",
		"RepositoryIndex", "ModelStatistics", "ModelInfer"} {
		for range *messages {
			data := bytes.Clone(valid)
			for range 1 + r.IntN(4) {
				if i := r.IntN(len(data)); r.IntN(4) == 0 {
					data = data[:i+1]
				} else {
					data[i] = byte(r.IntN(256))
				}
			}
			var answer []byte
			err := c.Invoke(t.Context(), "/inference.GRPCInferenceService/"+method, &data, &answer, grpc.ForceCodec(asIs{}))
			require.Contains(t, []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.ResourceExhausted}, status.Code(err),
				"%s %x: %v", method, data, err)
		}
	}
	require.Equal(t, exitDone, stop())
}

// asIs is a codec of bytes.
type asIs struct{}

func (asIs) Name() string                       { return "proto" }
func (asIs) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (asIs) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }

// limitCPU has the system end a command that uses two minutes of the processor.
func limitCPU(c *exec.Cmd) {
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -t 120; exec "$0" "$@"`}, c.Args...)
	c.Err = nil // the shell looks for the command
}

// TestHostileInputs runs commands on files and hubs that ask for much, each in a separate process that may take 512 MiB.
func TestHostileInputs(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, r io.Reader) string {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		_, err = io.Copy(f, r)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return f.Name()
	}
	pipe := filepath.Join(dir, "pipe.txt")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	part := filepath.Join(dir, "linked.jsonl")
	secret := write("secret", strings.NewReader("secret"))
	require.NoError(t, os.Symlink(secret, part+".part"))
	endless := func(w io.Writer, unit string) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat(unit, 1000))
		}
	}
	hubs := map[string]http.HandlerFunc{ // what answers what is not the revision
		"pages without end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="next"`, r.Host, r.URL.Path))
			fmt.Fprint(w, `[`)
			for i := range 5000 {
				fmt.Fprintf(w, `{"type": "file", "path": "%d-%s", "size": 1, "oid": "%040x"},`, i, strconv.Itoa(rand.IntN(1<<30)), i)
			}
			fmt.Fprint(w, `{"type": "directory", "path": "x"}]`)
		},
		"a page without end": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `[`)
			endless(w, `{"type": "directory", "path": "x"},`)
		},
		"a name without end": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `[{"type": "file", "path": "`)
			endless(w, "x")
		},
		"redirects without end": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"a file without end": func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/tree/") {
				fmt.Fprintf(w, `[{"type": "file", "path": "model.onnx", "size": 10, "oid": "%040x"}]`, 1)
				return
			}
			w.Header().Set("ETag", fmt.Sprintf(`"%040x"`, 1))
			w.Header().Set("X-Repo-Commit", strings.Repeat("a", 40))
			if r.Method == http.MethodHead {
				return
			}
			endless(w, "x")
		},
	}
	doubling := map[string]json.RawMessage{}
	text, err := os.ReadFile("../../tokenizer/testdata/tokenizer.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &doubling))
	replace := `{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}`
	doubling["normalizer"] = json.RawMessage(`{"type": "Sequence", "normalizers": [` + strings.Repeat(replace+",", 40) + replace + `]}`)
	text, err = json.Marshal(doubling)
	require.NoError(t, err)
	doubles := write("doubles.json", bytes.NewReader(text))
	var line bytes.Buffer // a member of gzip: a file of several unpacks to all of them
	z := gzip.NewWriter(&line)
	_, err = io.WriteString(z, strings.Repeat("a", 14<<20)+"\n")
	require.NoError(t, errors.Join(err, z.Close()))
	tokens, model := "../../tokenizer/testdata/tokenizer.json", served+"minilm"
	for name, x := range map[string]struct {
		args  []string
		stdin io.Reader
		code  int
		says  string
	}{
		"a quotation mark": {[]string{"embed", model, "--input", write("a.csv", strings.NewReader("text\n\"abc"))}, nil, exitInput,
			"a.csv:"},
		"a quotation's end": {[]string{"embed", model, "--input", write("b.csv", body("text\n\"", "abc\n", 32<<20, ""))}, nil,
			exitInput, "longer than 16 MiB"},
		"a long line": {[]string{"embed", model, "--input", write("c.txt", body("", "abc ", 32<<20, "\n"))}, nil, exitInput,
			"longer than 16 MiB"},
		"many long lines, packed": {[]string{"embed", model, "-o", filepath.Join(dir, "f.npy"), "--input", write("f.txt.gz",
			bytes.NewReader(bytes.Repeat(line.Bytes(), 24)))}, nil, exitDone, ""}, // 336 MiB, beside 240 MiB that the command takes
		"a deep object": {[]string{"embed", model, "--input", write("d.jsonl", body(`{"text": `, "[", 8<<20, "\n"))}, nil, exitInput,
			"not a JSON object"},
		"a pipe":              {[]string{"embed", model, "--input", pipe}, nil, exitInput, "not a regular file"},
		"a part elsewhere":    {[]string{"embed", model, "a", "-o", part}, nil, exitInput, "not a regular file"},
		"a long text":         {[]string{"tokenize", tokens}, body("", "a cat ", 1<<20, "\n"), exitDone, ""},
		"a longer text":       {[]string{"tokenize", tokens, "--json"}, body("", "a cat ", 14<<20, "\n"), exitInput, "split it into"},
		"a line without end":  {[]string{"tokenize", tokens, "--json"}, body("", "a", 32<<20, ""), exitInput, "longer than 16 MiB"},
		"a text that doubles": {[]string{"tokenize", doubles, "a"}, nil, exitInput, "tokenizer"},
		"many columns": {[]string{"embed", model, "--input", write("e.csv", body("text", ",c", 15<<20, "\na\n"))}, nil, exitInput,
			"commas"},
		"a text that doubles in embed": {[]string{"embed", model, "--tokenizer", doubles, "a"}, nil, exitInput, "tokenizer"},
		"pages without end":            {[]string{"pull", "acme/tiny"}, nil, exitInput, "twice"},
		"a page without end":           {[]string{"pull", "acme/tiny"}, nil, exitInput, "metadata"},
		"a name without end":           {[]string{"pull", "acme/tiny"}, nil, exitInput, "metadata"},
		"redirects without end":        {[]string{"pull", "acme/tiny"}, nil, exitInput, "redirects"},
		"a file without end":           {[]string{"pull", "acme/tiny"}, nil, exitInput, "model.onnx"},
	} {
		t.Run(name, func(t *testing.T) {
			c := process(x.args...)
			limitCPU(c)
			var said bytes.Buffer
			c.Stderr, c.Stdout, c.Stdin = &said, io.Discard, x.stdin
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/revision/") {
					json.NewEncoder(w).Encode(map[string]string{"sha": strings.Repeat("a", 40)})
				} else {
					hubs[name](w, r)
				}
			}))
			defer hub.Close()
			c.Env = append(os.Environ(), "HF_ENDPOINT="+hub.URL, "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=")
			most, _ := peakOf(c)
			require.Equal(t, x.code, c.ProcessState.ExitCode(), "%s", &said)
			require.Contains(t, said.String(), x.says)
			require.Less(t, most, int64(512<<20))
		})
	}
	text, err = os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))
}
