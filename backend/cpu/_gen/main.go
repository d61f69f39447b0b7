// Command _gen writes the assembly of backend/cpu/kernel, its Go stubs and the tables of the tiles.
//
// Every unit is one pair of files. A unit that exists for both AVX2 and AVX-512 is written once, over the type simd,
// which hides the width of the registers and the masks.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// units are the files that the generator writes: NAME_amd64.s and NAME_amd64.go.
var units = []struct {
	name string
	emit func(*gen)
}{
	{"cpuid", cpuid},
	{"peaks", peakLoops},
	{"gemm_avx2", func(g *gen) { gemmF32(avx2(g)) }},
	{"gemm_avx512", func(g *gen) { gemmF32(avx512(g)) }},
	{"gemm_s8_avx2", func(g *gen) { gemmS8AVX2(avx2(g)) }},
	{"gemm_vnni", func(g *gen) { gemmVNNI(avx512(g)) }},
	{"gemm_bf16_avx2", func(g *gen) { gemmWidenedBF16(avx2(g)) }},
	{"gemm_bf16_avx512", func(g *gen) { gemmWidenedBF16(avx512(g)) }},
	{"gemm_bf16", func(g *gen) { gemmBF16(avx512(g)) }},
	{"gemm_amx", func(g *gen) { gemmAMX(avx512(g)) }},
	{"elementwise_avx2", func(g *gen) { elementwise(avx2(g)) }},
	{"elementwise_avx512", func(g *gen) { elementwise(avx512(g)) }},
	{"convert_avx2", func(g *gen) { convertKernels(avx2(g)) }},
	{"convert_avx512", func(g *gen) { convertKernels(avx512(g)) }},
	{"quantize_avx2", func(g *gen) { quantizeKernels(avx2(g)) }},
	{"quantize_avx512", func(g *gen) { quantizeKernels(avx512(g)) }},
	{"gemm_q4_avx2", func(g *gen) { q4Kernels(avx2(g)) }},
	{"gemm_q4_avx512", func(g *gen) { q4Kernels(avx512(g)) }},
	{"gemm_q4_vnni", func(g *gen) { q4VNNI(avx512(g)) }},
	{"transpose_avx2", transposeKernel},
	{"attention_avx2", func(g *gen) { attentionKernels(avx2(g)) }},
	{"attention_avx512", func(g *gen) { attentionKernels(avx512(g)) }},
	{"attention_bf16", func(g *gen) { operandsBF16(avx512(g)) }},
	{"rows_avx2", func(g *gen) { rowKernels(avx2(g)) }},
	{"depthwise_avx2", func(g *gen) { depthwise(avx2(g)) }},
	{"depthwise_avx512", func(g *gen) { depthwise(avx512(g)) }},
	{"depthwise_vnni", func(g *gen) { depthwiseVNNI(avx512(g)) }},
	{"winograd_avx2", func(g *gen) { winograd(avx2(g)) }},
	{"winograd_avx512", func(g *gen) { winograd(avx512(g)) }},
	{"rows_avx512", func(g *gen) { rowKernels(avx512(g)) }},
}

// gen builds one unit.
type gen struct {
	*build.Context
	constants map[string]operand.Mem
	extra     bytes.Buffer // Go text for after the stubs
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run . FOLDER (where the files go: ../kernel)")
	}
	// The folder is no flag, because avo's build package has taken the name -out.
	if err := generate(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// generate writes all units to a folder.
func generate(folder string) error {
	if err := checkUnary(unaryTable); err != nil {
		return err
	}
	for _, unit := range units {
		g := &gen{Context: build.NewContext(), constants: map[string]operand.Mem{}}
		g.ConstraintExpr("amd64,!noasm")
		unit.emit(g)
		if err := g.write(filepath.Join(folder, unit.name+"_amd64")); err != nil {
			return fmt.Errorf("%s: %w", unit.name, err)
		}
	}
	return generateNEON(folder)
}

func (g *gen) write(path string) error {
	file, err := g.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	for _, check := range []pass.FunctionPass{checkRegisters, encodeUnknown} {
		if err := check.Execute(file); err != nil {
			return err
		}
	}
	config := printer.Config{Name: "backend/cpu/_gen", Pkg: "kernel"}
	text, err := printer.NewGoAsm(config).Print(file)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(config).Print(file)
	if err != nil {
		return err
	}
	stubs, err = format.Source(append(stubs, g.extra.Bytes()...))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".s", text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path+".go", stubs, 0o644)
}

// fn starts a leaf function whose pointers do not escape.
func (g *gen) fn(name, signature, doc string, args ...any) {
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	g.SignatureExpr(signature)
	g.Doc(fmt.Sprintf(doc, args...))
}

// checkRegisters finds a function for AVX2 that has taken a register which only AVX-512 has: avo's allocator does not
// know the difference.
func checkRegisters(f *ir.Function) error {
	if !strings.Contains(f.Name, "AVX2") {
		return nil
	}
	for _, inst := range f.Instructions() {
		for _, r := range append(inst.InputRegisters(), inst.OutputRegisters()...) {
			if p, ok := r.(reg.Physical); ok && r.Kind() == reg.KindVector && p.PhysicalIndex() >= 16 {
				return fmt.Errorf("%s uses %s", f.Name, r.Asm())
			}
		}
	}
	return nil
}
