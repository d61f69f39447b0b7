package cpu

import "github.com/rlxc/rlxc/ir"

// Prepare implements backend.Device: it packs the constant matrices of products, and brings constants that a file has at
// odd addresses to aligned ones.
func (d *Device) Prepare(g *ir.Graph) (int, error) {
	defer d.weights.trim()
	count := 0
	kernels := []func(*ir.Graph) (int, error){d.packQMatMul, d.packNBits, d.packRecurrent, d.packConv, d.packQConv, d.packMatMul}
	for _, pack := range kernels {
		packed, err := pack(g)
		if err != nil {
			return 0, err
		}
		count += packed
	}
	d.dropWidened(g)
	for _, v := range g.Consts() {
		if v.Const != nil && !d.anyAddress(v) {
			v.Const = v.Const.Aligned()
		}
	}
	return count, nil
}

// anyAddress reports whether all kernels that read a constant take it at any address: it may then stay where the file has it.
func (d *Device) anyAddress(v *ir.Value) bool {
	for _, u := range v.Uses {
		if f := d.kernels[u.Node.Op.Kind()].AnyAddress; f == nil || !f(u.Node, u.Index) {
			return false
		}
	}
	return true
}
