package a64

import "fmt"

// Op is a vector instruction: its text, with a %d for each register, and its encoding.
type Op struct {
	text   string
	bits   uint32
	places []uint32 // what the number of each register is multiplied by
}

// Where the numbers of registers are.
const (
	atD = 1
	atN = 1 << 5
	atA = 1 << 10
	atM = 1 << 16
)

// three is an instruction of a result and two operands, two one with one operand.
func three(text string, bits uint32) Op { return Op{text, bits, []uint32{atD, atN, atM}} }
func two(text string, bits uint32) Op   { return Op{text, bits, []uint32{atD, atN}} }

// Instructions on four words, or on 16 bytes where it is all the same.
var (
	FADD   = three("fadd v%d.4s, v%d.4s, v%d.4s", 0x4e20d400)
	FSUB   = three("fsub v%d.4s, v%d.4s, v%d.4s", 0x4ea0d400)
	FMUL   = three("fmul v%d.4s, v%d.4s, v%d.4s", 0x6e20dc00)
	FDIV   = three("fdiv v%d.4s, v%d.4s, v%d.4s", 0x6e20fc00)
	FMAX   = three("fmax v%d.4s, v%d.4s, v%d.4s", 0x4e20f400) // NaN if either is
	FMIN   = three("fmin v%d.4s, v%d.4s, v%d.4s", 0x4ea0f400)
	FMLA   = three("fmla v%d.4s, v%d.4s, v%d.4s", 0x4e20cc00)
	FMLS   = three("fmls v%d.4s, v%d.4s, v%d.4s", 0x4ea0cc00)
	FCMGT  = three("fcmgt v%d.4s, v%d.4s, v%d.4s", 0x6ea0e400)
	FACGT  = three("facgt v%d.4s, v%d.4s, v%d.4s", 0x6ea0ec00) // of magnitudes
	FCMGE  = three("fcmge v%d.4s, v%d.4s, v%d.4s", 0x6e20e400)
	FCMEQ  = three("fcmeq v%d.4s, v%d.4s, v%d.4s", 0x4e20e400)
	CMGT   = three("cmgt v%d.4s, v%d.4s, v%d.4s", 0x4ea03400)
	FADDP  = three("faddp v%d.4s, v%d.4s, v%d.4s", 0x6e20d400)
	ADD    = three("add v%d.4s, v%d.4s, v%d.4s", 0x4ea08400)
	SUB    = three("sub v%d.4s, v%d.4s, v%d.4s", 0x6ea08400)
	AND    = three("and v%d.16b, v%d.16b, v%d.16b", 0x4e201c00)
	ORR    = three("orr v%d.16b, v%d.16b, v%d.16b", 0x4ea01c00)
	EOR    = three("eor v%d.16b, v%d.16b, v%d.16b", 0x6e201c00)
	UMAXB  = three("umax v%d.16b, v%d.16b, v%d.16b", 0x6e206400)
	BSL    = three("bsl v%d.16b, v%d.16b, v%d.16b", 0x6e601c00) // mask is the result: mask ? n : m
	BIT    = three("bit v%d.16b, v%d.16b, v%d.16b", 0x6ea01c00) // the result becomes n where m is set
	ZIP1   = three("zip1 v%d.4s, v%d.4s, v%d.4s", 0x4e803800)
	ZIP2   = three("zip2 v%d.4s, v%d.4s, v%d.4s", 0x4e807800)
	TRN1   = three("trn1 v%d.4s, v%d.4s, v%d.4s", 0x4e802800)
	TRN2   = three("trn2 v%d.4s, v%d.4s, v%d.4s", 0x4e806800)
	ZIP1D  = three("zip1 v%d.2d, v%d.2d, v%d.2d", 0x4ec03800)
	ZIP2D  = three("zip2 v%d.2d, v%d.2d, v%d.2d", 0x4ec07800)
	FSQRT  = two("fsqrt v%d.4s, v%d.4s", 0x6ea1f800)
	FNEG   = two("fneg v%d.4s, v%d.4s", 0x6ea0f800)
	FABS   = two("fabs v%d.4s, v%d.4s", 0x4ea0f800)
	FRINTN = two("frintn v%d.4s, v%d.4s", 0x4e218800)
	FRINTM = two("frintm v%d.4s, v%d.4s", 0x4e219800)
	FRINTP = two("frintp v%d.4s, v%d.4s", 0x4ea18800)
	FCVTNS = two("fcvtns v%d.4s, v%d.4s", 0x4e21a800)
	SCVTF  = two("scvtf v%d.4s, v%d.4s", 0x4e21d800)
	ZERO   = Op{"movi v%d.2d, #0000000000000000", 0x6f00e400, []uint32{atD}}
)

// Instructions on bytes and half words, and between widths. Those that end in 2 take or fill the upper half of a register.
var (
	ZIP1B   = three("zip1 v%d.16b, v%d.16b, v%d.16b", 0x4e003800)
	ZIP1H   = three("zip1 v%d.8h, v%d.8h, v%d.8h", 0x4e403800)
	ZIP2H   = three("zip2 v%d.8h, v%d.8h, v%d.8h", 0x4e407800)
	MUL     = three("mul v%d.4s, v%d.4s, v%d.4s", 0x4ea09c00)
	MLS     = three("mls v%d.4s, v%d.4s, v%d.4s", 0x6ea09400)
	FCVTN   = two("fcvtn v%d.4h, v%d.4s", 0x0e216800)
	FCVTL   = two("fcvtl v%d.4s, v%d.4h", 0x0e217800)
	SHLL16  = two("shll v%d.4s, v%d.4h, #16", 0x2e613800)
	SHRN16  = two("shrn v%d.4h, v%d.4s, #16", 0x0f108400)
	XTNH    = two("xtn v%d.4h, v%d.4s", 0x0e612800)
	XTN2H   = two("xtn2 v%d.8h, v%d.4s", 0x4e612800)
	XTNB    = two("xtn v%d.8b, v%d.8h", 0x0e212800)
	UXTLH   = two("ushll v%d.8h, v%d.8b, #0", 0x2f08a400)
	SXTLH   = two("sshll v%d.8h, v%d.8b, #0", 0x0f08a400)
	UXTLS   = two("ushll v%d.4s, v%d.4h, #0", 0x2f10a400)
	UXTL2S  = two("ushll2 v%d.4s, v%d.8h, #0", 0x6f10a400)
	SXTLS   = two("sshll v%d.4s, v%d.4h, #0", 0x0f10a400)
	SXTL2S  = two("sshll2 v%d.4s, v%d.8h, #0", 0x4f10a400)
	UADDLPB = two("uaddlp v%d.8h, v%d.16b", 0x6e202800)
	UADALPH = two("uadalp v%d.4s, v%d.8h", 0x6e606800)
	SMULL   = three("smull v%d.8h, v%d.8b, v%d.8b", 0x0e20c000)
	SMULL2  = three("smull2 v%d.8h, v%d.16b, v%d.16b", 0x4e20c000)
	SADALP  = two("sadalp v%d.4s, v%d.8h", 0x4e606800)
	ADDP    = three("addp v%d.4s, v%d.4s, v%d.4s", 0x4ea0bc00)
	SUBB    = three("sub v%d.16b, v%d.16b, v%d.16b", 0x6e208400)
	ADDV    = two("addv s%d, v%d.4s", 0x4eb1b800)
)

// MOV copies a register.
var MOV = Op{"mov v%d.16b, v%d.16b", 0x4ea01c00, []uint32{atD, atN | atM}}

// DUP spreads a lane, DUPW a general register.
func DUP(lane int) Op {
	return two(fmt.Sprintf("dup v%%d.4s, v%%d.s[%d]", lane), 0x4e040400|uint32(lane)<<19)
}

// DUPW spreads the low half of a general register over all lanes.
var DUPW = two("dup v%d.4s, w%d", 0x4e040c00)

// Products with one lane.
var (
	FMLAE = lane("fmla v%%d.4s, v%%d.4s, v%%d.s[%d]", 0x4f801000)
	FMLSE = lane("fmls v%%d.4s, v%%d.4s, v%%d.s[%d]", 0x4f805000)
	FMULE = lane("fmul v%%d.4s, v%%d.4s, v%%d.s[%d]", 0x4f809000)
)

// lane is an instruction on all words of an operand and one word of the other.
func lane(text string, bits uint32) func(lane int) Op {
	return func(lane int) Op {
		return three(fmt.Sprintf(text, lane), bits|uint32(lane&1)<<21|uint32(lane>>1)<<11)
	}
}

// Sums of the products of four bytes, or of two bfloat16, with those of one word.
var (
	SDOTE  = lane("sdot v%%d.4s, v%%d.16b, v%%d.4b[%d]", 0x4f80e000)
	BFDOTE = lane("bfdot v%%d.4s, v%%d.8h, v%%d.2h[%d]", 0x4f40f000)
)

// Products of two rows with two columns, of eight bytes or four bfloat16 each. USMMLA takes unsigned bytes first, then signed.
var (
	USMMLA = three("usmmla v%d.4s, v%d.16b, v%d.16b", 0x4e80ac00)
	BFMMLA = three("bfmmla v%d.4s, v%d.8h, v%d.8h", 0x6e40ec00)
)

// EXT takes 16 bytes from the pair of its operands.
func EXT(bytes int) Op {
	return three(fmt.Sprintf("ext v%%d.16b, v%%d.16b, v%%d.16b, #%d", bytes), 0x6e000000|uint32(bytes)<<11)
}

// SHL, SSHR and USHR shift words.
func SHL(by int) Op {
	return two(fmt.Sprintf("shl v%%d.4s, v%%d.4s, #%d", by), 0x4f005400|uint32(32+by)<<16)
}

// SSHR shifts signed words to the right.
func SSHR(by int) Op {
	return two(fmt.Sprintf("sshr v%%d.4s, v%%d.4s, #%d", by), 0x4f000400|uint32(64-by)<<16)
}

// USHR shifts unsigned words to the right.
func USHR(by int) Op {
	return two(fmt.Sprintf("ushr v%%d.4s, v%%d.4s, #%d", by), 0x6f000400|uint32(64-by)<<16)
}

func address(offset int) string {
	if offset == 0 {
		return "[x%d]"
	}
	return fmt.Sprintf("[x%%d, #%d]", offset)
}

func scaled(offset, size, bits int) uint32 {
	if offset%size != 0 || offset/size >= 1<<bits || offset < 0 {
		panic(fmt.Sprintf("offset %d", offset))
	}
	return uint32(offset / size)
}

// single loads or stores at a constant offset.
func single(text string, bits uint32, size, offset int) Op {
	return two(text+"%d, "+address(offset), bits|scaled(offset, size, 12)<<10)
}

// Loads and stores of a register (Q), its lower half (D) or its first word (S). A load clears the rest of the register.
func LDRQ(offset int) Op { return single("ldr q", 0x3dc00000, 16, offset) }
func LDRD(offset int) Op { return single("ldr d", 0xfd400000, 8, offset) }
func LDRS(offset int) Op { return single("ldr s", 0xbd400000, 4, offset) }
func STRQ(offset int) Op { return single("str q", 0x3d800000, 16, offset) }
func STRD(offset int) Op { return single("str d", 0xfd000000, 8, offset) }
func STRS(offset int) Op { return single("str s", 0xbd000000, 4, offset) }

// Loads and stores at the sum of two registers.
var (
	LDRQX = three("ldr q%d, [x%d, x%d]", 0x3ce06800)
	LDRSX = three("ldr s%d, [x%d, x%d]", 0xbc606800)
	STRQX = three("str q%d, [x%d, x%d]", 0x3ca06800)
)

// LDPQ and STPQ move two registers that are adjacent in memory.
func LDPQ(offset int) Op { return pair("ldp", 0xad400000, offset) }
func STPQ(offset int) Op { return pair("stp", 0xad000000, offset) }

func pair(text string, bits uint32, offset int) Op {
	return Op{text + " q%d, q%d, " + address(offset), bits | scaled(offset, 16, 6)<<15, []uint32{atD, atA, atN}}
}

// LD1S and ST1S move one word to or from a lane.
func LD1S(lane int) Op {
	return two(fmt.Sprintf("ld1 { v%%d.s }[%d], [x%%d]", lane), 0x0d408000|uint32(lane>>1)<<30|uint32(lane&1)<<12)
}

// ST1S stores one lane.
func ST1S(lane int) Op {
	return two(fmt.Sprintf("st1 { v%%d.s }[%d], [x%%d]", lane), 0x0d008000|uint32(lane>>1)<<30|uint32(lane&1)<<12)
}

// LD1R loads a word into all lanes.
var LD1R = two("ld1r { v%d.4s }, [x%d]", 0x4d40c800)

// PRFM asks for memory: to the first cache, or to the second.
func PRFM(level, offset int) Op {
	return Op{fmt.Sprintf("prfm pldl%dkeep, %s", level, address(offset)), 0xf9800000 | uint32(level-1)*2 | scaled(offset, 8, 12)<<10,
		[]uint32{atN}}
}
