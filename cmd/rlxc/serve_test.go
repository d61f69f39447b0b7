package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rlxc/rlxc/internal/modeltest"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/oippb"
)

// A tail is what a command writes, while it writes it.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// await waits until the text matches.
func (t *tail) await(tb testing.TB, pattern string) []string {
	tb.Helper()
	re := regexp.MustCompile(pattern)
	var m []string
	modeltest.Wait(func() bool { m = re.FindStringSubmatch(t.String()); return m != nil })
	return m
}

// startServe runs rlxc serve and returns where. stop asks it to end and returns its exit code.
func startServe(t *testing.T, args ...string) (url string, log *tail, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log = &tail{}
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, append([]string{"serve", "--address", "127.0.0.1:0"}, args...), io.Discard, log)
	}()
	t.Cleanup(func() { draining.Store(0) })
	url = log.await(t, `url"?[=:]"?([^\s"]+)`)[1]
	return url, log, func() int {
		cancel()
		return <-code
	}
}

func post(t *testing.T, client *http.Client, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	a, err := client.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a.StatusCode, string(text)
}

const served = "../../pipeline/testdata/"

func TestServe(t *testing.T) {
	t.Setenv(envName("api-key"), "one,two")
	t.Setenv(envName("max-texts"), "3")
	t.Setenv(envName("models"), "vectors="+served+"minilm "+served+"rerank")
	url, log, stop := startServe(t, "--log-format", "text", "--memory-limit", "64MiB")
	client := &http.Client{}
	key := []string{"Authorization", "Bearer two"}
	status, text := post(t, client, url+"/v1/embeddings", `{"model": "vectors", "input": ["a", "b"]}`, key...)
	require.Equal(t, 200, status, text)
	status, text = post(t, client, url+"/v1/embeddings", `{"model": "vectors", "input": ["a", "b", "c", "d"]}`, key...)
	require.Equal(t, 413, status, text)
	status, _ = post(t, client, url+"/v1/embeddings", `{"model": "vectors", "input": "a"}`)
	require.Equal(t, 401, status)
	status, text = post(t, client, url+"/rerank", `{"query": "a", "texts": ["b", "c"]}`, key...)
	require.Equal(t, 200, status, text)
	log.await(t, `route=/rerank status=200.* model=rerank texts=2`)
	client.CloseIdleConnections()
	require.Equal(t, exitDone, stop(), "%s", log)
	require.Contains(t, log.String(), "stopping")
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rlxc"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return file
	}
	cert, secretFile := write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
	url, log, stop := startServe(t, served+"minilm", "--tls-cert", cert, "--tls-key", secretFile)
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool.AddCert(parsed)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	status, text := post(t, client, url+"/embed", `{"inputs": "a"}`)
	require.Equal(t, 200, status, text)
	client.CloseIdleConnections()
	require.Equal(t, exitDone, stop(), "%s", log)
}

func TestServeWrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "no models"},
		{[]string{"nothing/here/at/all"}, exitInput, "nothing/here/at/all"},
		{[]string{served + "minilm", "--max-texts", "0"}, exitUsage, "--max-texts 0: want at least 1"},
		{[]string{served + "minilm", "--sessions", "-1"}, exitUsage, "--sessions -1: want at least 0"},
		{[]string{served + "minilm", "--memory-limit", "1KiB"}, exitUsage, "--memory-limit 1024: want at least 1048576"},
		{[]string{served + "minilm", "--threads", "4000"}, exitInput, "4000 threads: this machine has 1 to "},
		{[]string{served + "minilm", "--tls-cert", "x"}, exitUsage, "tls-key"},
		{[]string{served + "minilm", "--api-key", ""}, exitUsage, "empty"},
		{[]string{served + "minilm", "--api-key-file", empty}, exitInput, "has no keys"},
		{[]string{"a=" + served + "minilm", "a=" + served + "rerank"}, exitInput, `duplicate model name "a"`},
		{[]string{served + "minilm", "--address", "127.0.0.1:99999"}, exitInput, "99999"},
	} {
		log := &tail{}
		require.Equal(t, x.code, execute(t.Context(), append([]string{"serve", "--address", "127.0.0.1:0"}, x.args...), io.Discard, log),
			"%v: %s", x.args, log)
		require.Contains(t, log.String(), x.says)
	}
	t.Setenv(envName("timeout"), "soon")
	log := &tail{}
	require.Equal(t, exitUsage, execute(t.Context(), []string{"serve", served + "minilm"}, io.Discard, log))
	require.Contains(t, log.String(), envName("timeout"))
}

func TestModelName(t *testing.T) {
	for path, want := range map[string]string{"org/all-MiniLM-L6-v2@main": "all-MiniLM-L6-v2", "a/b/onnx/model.onnx": "b",
		"a/tiny.onnx": "tiny",
		"./x/":        "x", "model.onnx": "model"} {
		require.Equal(t, want, modelName(path))
	}
}

// Tensors over gRPC, and traces for a collector.
func TestServeGRPC(t *testing.T) {
	got := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Method + " " + r.URL.Path }))
	defer collector.Close()
	url, log, stop := startServe(t, served+"minilm", "--grpc-address", "127.0.0.1:0", "--otlp", collector.URL)
	address := log.await(t, `grpc=(\S+)`)[1]
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer c.Close()
	ready := new(oippb.ServerReadyResponse)
	require.NoError(t, c.Invoke(t.Context(), "/inference.GRPCInferenceService/ServerReady", &oippb.ServerReadyRequest{}, ready))
	require.True(t, ready.GetReady())
	client := &http.Client{}
	status, text := post(t, client, url+"/embed", `{"inputs": "a"}`)
	require.Equal(t, 200, status, text)
	client.CloseIdleConnections()
	require.Equal(t, exitDone, stop(), "%s", log)
	require.Equal(t, "POST /v1/traces", <-got)
}

// Clients of gRPC that send no message, or none of gRPC's, take nothing with them. Without a key they take no place, and with one half of
// the positions: another peer is answered.
func TestServeGRPCBadClients(t *testing.T) {
	_, log, stop := startServe(t, served+"minilm", "--grpc-address", "127.0.0.1:0", "--read-timeout", "4s", "--timeout", "4s",
		"--api-key", "k", "--max-requests", "8")
	address := log.await(t, `grpc=(\S+)`)[1]
	garbage, err := net.Dial("tcp", address)
	require.NoError(t, err)
	io.WriteString(garbage, "POST / HTTP/1.1\r\n\r\n")
	garbage.Close()
	dial := func(from string) *grpc.ClientConn {
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
				return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", to)
			}))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	keyed := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer k")
	const infer = "/inference.GRPCInferenceService/ModelInfer"
	silent := func(ctx context.Context, c *grpc.ClientConn) grpc.ClientStream {
		s, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, infer)
		require.NoError(t, err)
		return s
	}
	bad, good := dial("127.0.0.1"), dial("127.0.0.2")
	for range 40 {
		require.Equal(t, codes.Unauthenticated, status.Code(silent(t.Context(), bad).RecvMsg(new(oippb.ModelInferResponse))))
	}
	late := []codes.Code{codes.DeadlineExceeded, codes.Internal, codes.Canceled, codes.Unavailable}
	ended := make(chan codes.Code, 100)
	hold := func() {
		s := silent(keyed, bad)
		go func() { ended <- status.Code(s.RecvMsg(new(oippb.ModelInferResponse))) }()
	}
	for range 4 {
		hold()
	}
	modeltest.Wait(func() bool {
		select {
		case c := <-ended: // a request below had the position first, or the machine is so busy that the time of this one has passed
			require.Contains(t, append(late, codes.ResourceExhausted), c)
			hold()
		default:
		}
		return status.Code(bad.Invoke(keyed, infer, &oippb.ModelInferRequest{}, new(oippb.ModelInferResponse))) == codes.ResourceExhausted
	})
	require.Equal(t, codes.NotFound, status.Code(good.Invoke(keyed, infer, &oippb.ModelInferRequest{ModelName: "x"},
		new(oippb.ModelInferResponse))))
	for range 4 {
		require.Contains(t, late, <-ended)
	}
	require.Equal(t, exitDone, stop(), "%s", log)
}

func TestBenchServe(t *testing.T) {
	url, log, stop := startServe(t, served+"minilm", "--api-key", "k", "--log-level", "info")
	texts := filepath.Join(t.TempDir(), "texts.txt")
	require.NoError(t, os.WriteFile(texts, []byte("a cat\n12\n"), 0o600))
	var out bytes.Buffer
	args := []string{"bench", "--serve", url + "/v1/embeddings", "--serve-key", "k", "--serve-model", "minilm", "--throughput", texts,
		"--duration", "200ms", "--json"}
	require.Equal(t, exitDone, execute(t.Context(), args, &out, log), "%s", log)
	var r loadReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Positive(t, r.Answered)
	require.Zero(t, r.Refused)
	require.GreaterOrEqual(t, r.P99, r.P50)
	out.Reset()
	require.Equal(t, exitDone, execute(t.Context(), append(args, "--rate", "50", "--request-texts", "2"), &out, log), "%s", log)
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.LessOrEqual(t, r.Answered, 11)
	require.Equal(t, exitInput, execute(t.Context(), append(args, "--serve-key", "x"), &out, log))
	require.Contains(t, log.String(), "401")
	require.Equal(t, exitUsage, execute(t.Context(), append(args, "--rate", "-1"), &out, log))
	require.Equal(t, exitUsage, execute(t.Context(), append(args, "bert-tiny"), &out, log))
	require.Equal(t, exitDone, stop())
}

// TestServeOnGPU: texts have the same vectors on a GPU, and on several that share the batches, as on the processor.
func TestServeOnGPU(t *testing.T) {
	if os.Getenv(native.EnvLibrary) == "" {
		t.Skip(native.EnvLibrary + " is not set")
	}
	var texts []string
	for i := range 40 {
		texts = append(texts, strings.Repeat("a cat sits on the mat ", i%7+1))
	}
	body, err := json.Marshal(map[string]any{"inputs": texts})
	require.NoError(t, err)
	vectors := func(args ...string) (all [2][][]float64) {
		url, _, stop := startServe(t, append(args, served+"minilm")...)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				code, text := post(t, http.DefaultClient, url+"/embed", string(body))
				assert.Equal(t, http.StatusOK, code, text)
				assert.NoError(t, json.Unmarshal([]byte(text), &all[i]))
			})
		}
		wg.Wait()
		require.Equal(t, exitDone, stop())
		return all
	}
	want := vectors()[0]
	for _, args := range [][]string{{}, {"--device", "0,0"}, {"--unpad=false"}} {
		for _, got := range vectors(append(args, "--backend", "wgpu")...) {
			require.Len(t, got, len(want))
			for i, x := range got {
				require.InDeltaSlice(t, want[i], x, 1e-5, "%v: text %d", args, i)
			}
		}
	}
}
