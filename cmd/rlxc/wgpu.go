package main

import (
	"errors"
	"strconv"

	"github.com/rlxc/rlxc/backend/wgpu" // the loader after it makes the binary dynamic
	"github.com/rlxc/rlxc/internal/native"
)

// deviceLists are the backends that have devices.
var deviceLists = []struct {
	backend string
	devices func() ([]deviceRow, error)
}{{"cuda", nvidiaDevices}, {"wgpu", adapters}}

// adapters lists the devices of the wgpu backend.
func adapters() ([]deviceRow, error) {
	lib, err := native.Open("")
	if err != nil {
		return nil, err
	}
	var rows []deviceRow
	for i, a := range lib.Adapters() {
		row := deviceRow{Backend: "wgpu", Device: strconv.Itoa(i), Name: a.Name, Kind: a.Kind.String() + ", " + a.API, Driver: a.Driver,
			Binding: a.Limits.MaxStorageBufferBindingSize, Buffer: a.Limits.MaxBufferSize}
		if a.Has(native.CooperativeMatrix) { // listed, but not always given
			d, err := a.Open()
			if err == nil {
				d.Close()
				err = a.Refused
			}
			if err == nil && a.Has(native.ShaderF16) {
				err = wgpu.Cooperative(row.Device)
			}
			if err != nil {
				row.Refused = err.Error()
			}
		}
		for _, f := range a.Features {
			row.Features = append(row.Features, f.String())
		}
		rows = append(rows, row)
		a.Release()
	}
	if rows == nil {
		return nil, errors.New("wgpu-native finds no adapter")
	}
	return rows, nil
}
