// Command _gen compiles the CUDA C++ beside it to PTX, a text for each kernel, and that to machine code for Hopper, both of which it
// writes to ../kernels, two archives for each source. It lists in resources.txt there what ptxas says of each: registers, spilled bytes,
// shared memory.
//
//	go run . -nvcc PATH          writes all
//	go run . -nvcc PATH -only A,B compiles these sources, and keeps the kernels of the others
//	go run . -only none          writes what needs no compiler: ../instructions.go and wgmma.cuh
//	go run . -nvcc PATH -check   fails if they are not what it would write
//
// nvcc and ptxas come from PyPI: pip install nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

type source struct{ file, arch string }

// sources are the files with kernels, and the least compute capability that each needs; 90a is of that capability alone.
var sources = []source{
	{"each.cu", "75"}, {"index.cu", "75"}, {"rows.cu", "75"}, {"matmul.cu", "75"}, {"attention.cu", "75"},
	{"flash32.cu", "75"}, {"quant.cu", "75"}, {"packed.cu", "75"}, {"opaque.cu", "75"}, {"mma.cu", "80"}, {"qmma.cu", "80"},
	{"flash.cu", "80"}, {"flash90.cu", "90a"}, {"simt.cu", "80"}, {"three.cu", "80"}, {"bits.cu", "80"},
	{"windows.cu", "75"}, {"wgmma.cu", "90a"},
}

// version is the version of PTX that the kernels declare: drivers for CUDA 12.0 read it. nvcc writes its own, newer one; that
// nothing in them needs it is what ptxas checks.
const version = ".version 8.0"

// What the generator writes.
const (
	folder    = "../kernels"
	tablePath = folder + "/resources.txt"
	sumPath   = folder + "/sources.sum"

	instructionsPath = "../instructions.go"
)

// A kernel is one entry of a source, and its machine code for Hopper.
type kernel struct{ name, source, arch, text, code string }

// archives are the two of a source, by their paths: what of a kernel each holds.
func archives(source string) map[string]func(*kernel) *string {
	return map[string]func(*kernel) *string{
		fmt.Sprintf("%s/%s.ptx.tar.zst", folder, source):   func(k *kernel) *string { return &k.text },
		fmt.Sprintf("%s/%s.cubin.tar.zst", folder, source): func(k *kernel) *string { return &k.code },
	}
}

func main() {
	log.SetFlags(0)
	nvcc := flag.String("nvcc", "nvcc", "the compiler; ptxas stands beside it")
	only := flag.String("only", "", "compile these sources, and keep the kernels of the others")
	check := flag.Bool("check", false, "write neither, and fail if they are not what would be written")
	flag.Parse()
	table, err := instructions()
	if err == nil {
		err = errors.Join(os.WriteFile("wgmma.cuh", wgmmaHeader(), 0o644), os.WriteFile(instructionsPath, table, 0o644))
	}
	if err != nil {
		log.Fatal(err)
	}
	if *only == "none" {
		return
	}
	if *only != "" {
		sources = slices.DeleteFunc(sources, func(s source) bool { return !slices.Contains(strings.Split(*only, ","), s.file) })
	}
	ptxas := filepath.Join(filepath.Dir(*nvcc), "ptxas")
	if *check {
		if err := verify(*nvcc, ptxas); err != nil {
			log.Fatal(err)
		}
		return
	}
	lists, err := compile(*nvcc, sources)
	if err != nil {
		log.Fatal(err)
	}
	kernels := sorted(slices.Concat(lists...))
	if err := assemble(ptxas, kernels); err != nil {
		log.Fatal(err)
	}
	lines, err := resources(ptxas, kernels)
	if err != nil {
		log.Fatal(err)
	}
	if err := write(kernels, lines); err != nil {
		log.Fatal(err)
	}
}

// attempts is how often verify compiles a source whose text differs. nvcc 13.5 allocates the registers of simt.cu in one of two
// ways, one in three runs in the other: the addresses that the system gives it decide.
const attempts = 12

// verify compiles the sources, and returns an error if the archive or the table is not what came out.
func verify(nvcc, ptxas string) error {
	stale := func(path string) error {
		return fmt.Errorf("%s is not what the generator writes: run it without -check", path)
	}
	archive, err := archived()
	if err != nil {
		return err
	}
	sum, err := sumOfSources()
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(sumPath); err != nil || string(old) != sum {
		return errors.Join(err, stale(sumPath))
	}
	var matched []kernel
	for left, n := sources, 0; len(left) > 0; n++ {
		if n == attempts {
			return fmt.Errorf("%w (%d attempts at %s)", stale(folder), n, left[0].file)
		}
		var again []source
		lists, err := compile(nvcc, left)
		if err != nil {
			return err
		}
		for i, kernels := range lists {
			if slices.ContainsFunc(kernels, func(k kernel) bool { return archive[k.name].text != k.text }) {
				again = append(again, left[i])
				continue
			}
			matched = append(matched, kernels...)
		}
		left = again
	}
	if err := assemble(ptxas, matched); err != nil {
		return err
	}
	if len(matched) != len(archive) || slices.ContainsFunc(matched, func(k kernel) bool { return archive[k.name].code != k.code }) {
		return stale(folder)
	}
	table, err := resources(ptxas, matched)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(tablePath); err != nil || !bytes.Equal(old, table) {
		return errors.Join(err, stale(tablePath))
	}
	return nil
}

// instructions is the Go table of the instructions of kernel each, which are in an enumeration of its source.
func instructions() ([]byte, error) {
	text, err := os.ReadFile("each.cu")
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(string(text), "enum Op {")
	list, _, ok := strings.Cut(list, "};")
	if !ok {
		return nil, errors.New("each.cu has no enum Op")
	}
	var b bytes.Buffer
	fmt.Fprint(&b, "// Code generated by backend/cuda/_gen. DO NOT EDIT.\n\npackage cuda\n\n",
		"// instructionNames are the instructions of the kernel each, in the order of its Op: those before int_neg compute in float32,\n",
		"// the others in int64.\nvar instructionNames = []string{\n")
	for _, name := range strings.Split(list, ",") {
		name, _, _ = strings.Cut(strings.TrimSpace(name), " =")
		if name != "OP_INT" { // a mark, and no instruction
			fmt.Fprintf(&b, "%q,\n", strings.ToLower(strings.TrimPrefix(name, "OP_")))
		}
	}
	fmt.Fprint(&b, "}\n")
	return format.Source(b.Bytes())
}

func sorted(kernels []kernel) []kernel {
	slices.SortFunc(kernels, func(a, b kernel) int { return strings.Compare(a.name, b.name) })
	return kernels
}

// compile compiles sources, two at a time, and cuts what comes out of each into kernels.
func compile(nvcc string, sources []source) ([][]kernel, error) {
	dir, err := os.MkdirTemp("", "ptx")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lists, errs := make([][]kernel, len(sources)), make([]error, len(sources))
	limit := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			out := filepath.Join(dir, s.file+".ptx")
			text, err := exec.Command(nvcc, "-std=c++17", "-O3", "-arch=compute_"+s.arch, "-ptx", s.file, "-o", out).CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w\n%s", s.file, err, text)
				return
			}
			data, err := os.ReadFile(out)
			if err != nil {
				errs[i] = err
				return
			}
			lists[i], errs[i] = split(string(data), s)
		})
	}
	wg.Wait()
	return lists, errors.Join(errs...)
}

var entry = regexp.MustCompile(`^\.visible \.entry (\w+)\(`)

// split cuts a module into sources of one kernel each, with the declarations that it uses.
func split(text string, from source) ([]kernel, error) {
	var kernels []kernel
	var head []string       // of all
	var declared [][]string // at module level
	var body []string
	name := ""
	for _, line := range strings.Split(text, "\n") {
		if i := strings.Index(line, "//"); i >= 0 {
			line = line[:i]
		}
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, `.pragma "used_bytes_mask`): // a hint that newer versions have
		case name != "":
			if body = append(body, line); line == "}" && depthOf(body) == 0 {
				kernels = append(kernels, kernel{name: name, source: strings.TrimSuffix(from.file, ".cu"), arch: from.arch,
					text: strings.Join(body, "\n")})
				name, body = "", nil
			}
		case entry.MatchString(line):
			name, body = entry.FindStringSubmatch(line)[1], []string{line}
		case strings.HasPrefix(line, ".version"):
			head = append(head, version)
		case strings.HasPrefix(line, ".target"), strings.HasPrefix(line, ".address_size"):
			head = append(head, line)
		case strings.HasPrefix(line, ".func"):
			return nil, errors.New("a function was not inlined: " + line)
		default:
			declared = append(declared, []string{line})
		}
	}
	for i, k := range kernels {
		list := slices.Clone(head)
		for _, d := range declared {
			if used := declaredName.FindStringSubmatch(d[0]); used == nil || strings.Contains(k.text, used[1]) {
				list = append(list, d[0])
			}
		}
		kernels[i].text = strings.Join(append(list, mark(k.text)), "\n") + "\n"
	}
	return kernels, nil
}

// mark puts the marks of common.cuh at the start of a kernel that has none.
func mark(text string) string {
	if strings.Contains(text, marks[1]) {
		return text
	}
	lines := strings.Split(text, "\n")
	open := slices.Index(lines, "{") + 1
	for strings.HasPrefix(lines[open], ".") {
		open++
	}
	return strings.Join(slices.Insert(lines, open, marks...), "\n")
}

var marks = []string{`.pragma "start next";`, `.pragma "wait for last";`}

// declaredName is the name in a declaration of memory.
var declaredName = regexp.MustCompile(`\.b\d+ (\w+)\[`)

// depthOf is the number of braces that are open.
func depthOf(lines []string) (n int) {
	for _, l := range lines {
		n += strings.Count(l, "{") - strings.Count(l, "}")
	}
	return n
}

// archived returns the kernels of all archives by their names.
func archived() (map[string]kernel, error) {
	kernels := map[string]kernel{}
	for _, s := range sources {
		name := strings.TrimSuffix(s.file, ".cu")
		for path, part := range archives(name) {
			f, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			z, err := zstd.NewReader(f)
			if err != nil {
				return nil, err
			}
			defer z.Close()
			for t := tar.NewReader(z); ; {
				h, err := t.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %w", path, err)
				}
				data, err := io.ReadAll(t)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", path, err)
				}
				k := kernels[h.Name]
				k.name, k.source = h.Name, name
				*part(&k) = string(data)
				kernels[h.Name] = k
			}
		}
	}
	return kernels, nil
}

// sumOfSources is a fingerprint of the sources, as sources.sum has it.
func sumOfSources() (string, error) {
	files, err := filepath.Glob("*.cu*")
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	h := sha256.New()
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", f, len(data), data)
	}
	return hex.EncodeToString(h.Sum(nil)) + "\n", nil
}

// write writes the archives of the sources that were compiled, the table, which keeps its lines of the others, and the fingerprint.
func write(kernels []kernel, table []byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	compiled := map[string]bool{}
	for _, s := range sources {
		name := strings.TrimSuffix(s.file, ".cu")
		compiled[name] = true
		for path, part := range archives(name) {
			archive, err := pack(slices.DeleteFunc(slices.Clone(kernels), func(k kernel) bool { return k.source != name }), part)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, archive, 0o644); err != nil {
				return err
			}
		}
	}
	lines := slices.Collect(strings.Lines(string(table)))
	old, err := os.ReadFile(tablePath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(old)) {
		if !compiled[strings.Fields(line)[1]] {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	sum, err := sumOfSources()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(tablePath, []byte(strings.Join(lines, "")), 0o644), os.WriteFile(sumPath, []byte(sum), 0o644))
}

// pack makes an archive of one part of kernels, the same bytes for the same kernels.
func pack(kernels []kernel, part func(*kernel) *string) ([]byte, error) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, k := range kernels {
		text := *part(&k)
		if err := t.WriteHeader(&tar.Header{Name: k.name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(t, text); err != nil {
			return nil, err
		}
	}
	err = errors.Join(t.Close(), z.Close())
	return b.Bytes(), err
}

var (
	usedRegisters = regexp.MustCompile(`Used (\d+) registers`)
	spilled       = regexp.MustCompile(`(\d+) bytes spill stores`)
	sharedBytes   = regexp.MustCompile(`(\d+) bytes smem`)
)

// marked makes what devices of sm_90 can do of the marks of common.cuh, as modules.go does.
var marked = strings.NewReplacer(marks[0], "griddepcontrol.launch_dependents;", marks[1], "griddepcontrol.wait;", ".target sm_75\n",
	".target sm_90\n", ".target sm_80\n", ".target sm_90\n")

// assemble makes the machine code of kernels for Hopper.
func assemble(ptxas string, kernels []kernel) error {
	return assembleAll(ptxas, kernels, func(k *kernel) (text, arch string) {
		if arch = "90"; k.arch == "90a" || strings.Contains(k.text, ".target sm_90a") {
			arch = "90a"
		}
		return marked.Replace(k.text), arch
	}, func(i int, _, code []byte) { kernels[i].code = string(code) })
}

// resources assembles every kernel for the capability that it was written for, 80 at least, and lists what it takes.
func resources(ptxas string, kernels []kernel) ([]byte, error) {
	lines := make([]string, len(kernels))
	arch := func(k *kernel) string {
		if k.arch == "75" {
			return "80"
		}
		return k.arch
	}
	err := assembleAll(ptxas, kernels, func(k *kernel) (string, string) { return k.text, arch(k) }, func(i int, said, _ []byte) {
		number := func(r *regexp.Regexp) string {
			if m := r.FindSubmatch(said); m != nil {
				return string(m[1])
			}
			return "0"
		}
		k := &kernels[i]
		lines[i] = fmt.Sprintf("%s %s sm_%s registers %s spilled %s shared %s\n", k.name, k.source, arch(k), number(usedRegisters),
			number(spilled), number(sharedBytes))
	})
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), err
}

// assembleAll assembles kernels as input has them, two at a time, and passes on what ptxas says and makes.
func assembleAll(ptxas string, kernels []kernel, input func(*kernel) (text, arch string), done func(i int, said, code []byte)) error {
	dir, err := os.MkdirTemp("", "ptxas")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	errs := make([]error, len(kernels))
	limit := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i := range kernels {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			text, arch := input(&kernels[i])
			path := filepath.Join(dir, kernels[i].name+".ptx")
			if errs[i] = os.WriteFile(path, []byte(text), 0o644); errs[i] != nil {
				return
			}
			said, err := exec.Command(ptxas, "-v", "-arch=sm_"+arch, path, "-o", path+".cubin").CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w\n%s", kernels[i].name, err, said)
				return
			}
			code, err := os.ReadFile(path + ".cubin")
			errs[i] = err
			done(i, said, code)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
