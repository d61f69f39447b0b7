package imaging

import (
	"bytes"
	"encoding/binary"
)

// A turn brings stored pixels upright: transpose exchanges the axes, and then columns and rows are reversed.
type turn struct{ transpose, flipX, flipY bool }

// turns has a row for each value of EXIF's tag Orientation. Value 0 is none of them and stands for 1.
var turns = [9]turn{
	2: {flipX: true}, 3: {flipX: true, flipY: true}, 4: {flipY: true},
	5: {transpose: true}, 6: {transpose: true, flipX: true}, 7: {transpose: true, flipX: true, flipY: true},
	8: {transpose: true, flipY: true},
}

// turn returns the upright image, which is r itself if nothing changes.
func (r *Raster) turn(t turn) *Raster {
	if t == (turn{}) {
		return r
	}
	out := newRaster(r.Width, r.Height)
	stepX, stepY := 3, 3*r.Width // in r.Pix, for a step in out
	if t.transpose {
		out.Width, out.Height = r.Height, r.Width
		stepX, stepY = stepY, stepX
	}
	first := 0
	if t.flipX {
		first, stepX = first+stepX*(out.Width-1), -stepX
	}
	if t.flipY {
		first, stepY = first+stepY*(out.Height-1), -stepY
	}
	for y := range out.Height {
		row := out.row(y)
		for x := range out.Width {
			copy(row[3*x:3*x+3], r.Pix[first+y*stepY+x*stepX:])
		}
	}
	return out
}

// jpegSegments calls each with the segments before the first scan until it returns false.
func jpegSegments(file []byte, each func(marker byte, content []byte) (more bool)) {
	for at := 2; at+4 <= len(file) && file[at] == 0xff; {
		marker, size := file[at+1], int(binary.BigEndian.Uint16(file[at+2:]))
		switch {
		case marker == 0xff: // a fill byte
			at++
			continue
		case marker < 0xc0 || marker >= 0xd0 && marker <= 0xda || size < 2 || at+2+size > len(file): // no segment, or the first scan
			return
		case !each(marker, file[at+4:at+2+size]):
			return
		}
		at += 2 + size
	}
}

// jpegOrientation reads the Exif segment, which comes before the first scan.
func jpegOrientation(file []byte) int {
	orientation := 1
	jpegSegments(file, func(marker byte, content []byte) bool {
		if marker == 0xe1 && bytes.HasPrefix(content, []byte("Exif\x00\x00")) {
			orientation = tiffOrientation(content[6:])
			return false
		}
		return true
	})
	return orientation
}

// pngOrientation reads the chunk eXIf.
func pngOrientation(file []byte) int {
	for at := 8; at+12 <= len(file); {
		size := int64(binary.BigEndian.Uint32(file[at:]))
		if int64(at)+12+size > int64(len(file)) {
			break
		}
		if string(file[at+4:at+8]) == "eXIf" {
			return tiffOrientation(file[at+8:][:size])
		}
		at += 12 + int(size)
	}
	return 1
}

// webpOrientation reads the chunk EXIF, whose content some programs begin as in JPEG.
func webpOrientation(file []byte) int {
	for at := 12; at+8 <= len(file); {
		size := int64(binary.LittleEndian.Uint32(file[at+4:]))
		if int64(at)+8+size > int64(len(file)) {
			break
		}
		if string(file[at:at+4]) == "EXIF" {
			return tiffOrientation(bytes.TrimPrefix(file[at+8:][:size], []byte("Exif\x00\x00")))
		}
		at += 8 + int(size+size&1)
	}
	return 1
}

// tiffOrientation reads the tag Orientation of a TIFF file, or of Exif data, which have the same form. It returns 1 if there is none.
func tiffOrientation(file []byte) int {
	if len(file) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if file[0] == 'M' {
		order = binary.BigEndian
	}
	at := int64(order.Uint32(file[4:]))
	if at+2 > int64(len(file)) {
		return 1
	}
	entries := file[at+2:]
	for range order.Uint16(file[at:]) {
		if len(entries) < 12 {
			break
		}
		if order.Uint16(entries) == 0x112 && order.Uint16(entries[2:]) == 3 { // Orientation, a 16-bit number
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
		}
		entries = entries[12:]
	}
	return 1
}
