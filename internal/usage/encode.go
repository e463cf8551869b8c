package usage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// version is the first byte of an encoded history.
const version = 2

// MarshalBinary encodes the history; the same history gives the same bytes.
func (h *History) MarshalBinary() ([]byte, error) {
	b := binary.AppendVarint([]byte{version}, h.era)
	for _, d := range h.days {
		b = binary.AppendVarint(b, d.number)
		b = float(b, d.peak)
		for _, c := range []covered{d.cpu, d.memory} {
			for _, word := range c {
				b = binary.LittleEndian.AppendUint64(b, word)
			}
		}
	}
	for i := range h.cpu {
		b = h.cpu[i].encode(b)
	}
	for i := range h.daily {
		b = h.daily[i].use.encode(binary.AppendVarint(b, h.daily[i].number))
	}
	return b, nil
}

func (h *histogram) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(h.bucket)))
	last := uint16(0)
	for i, bucket := range h.bucket {
		b = float(binary.AppendUvarint(b, uint64(bucket-last)), h.weight[i])
		last = bucket
	}
	return b
}

func float(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// Digest is "sha256:" and the hexadecimal SHA-256 of the encoding.
func (h *History) Digest() string {
	b, _ := h.MarshalBinary() // it has no error to return
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

var errEncoding = errors.New("usage: not an encoded history, or damaged")

// UnmarshalBinary replaces the history by an encoded one. It refuses other versions and
// anything that [History.MarshalBinary] does not write.
func (h *History) UnmarshalBinary(data []byte) error {
	if len(data) == 0 {
		return errEncoding
	}
	if data[0] != version {
		return fmt.Errorf("usage: a history of version %d: want %d", data[0], version)
	}
	d := decoder{rest: data[1:]}
	var n History
	n.era = d.varint()
	for i := range n.days {
		n.days[i] = dayOf{d.varint(), d.float(), d.covered(), d.covered()}
		d.check(n.days[i] == (dayOf{}) || mod(n.days[i].number, Window) == int64(i))
	}
	for i := range n.cpu {
		n.cpu[i] = d.histogram()
	}
	for i := range n.daily {
		n.daily[i] = daily{d.varint(), d.histogram()}
		d.check(n.daily[i].number == 0 || mod(n.daily[i].number, Window) == int64(i))
	}
	if d.bad || len(d.rest) > 0 {
		return errEncoding
	}
	*h = n
	return nil
}

// A decoder remembers that a part was invalid.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) check(ok bool) { d.bad = d.bad || !ok }

func (d *decoder) skip(n int) {
	if d.check(n > 0); !d.bad {
		d.rest = d.rest[n:]
	}
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	const far = 1 << 40 // no sum of two overflows
	d.check(v > -far && v < far)
	return v
}

func (d *decoder) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	d.check(v <= most)
	return v
}

// covered has no bit beyond the day.
func (d *decoder) covered() (c covered) {
	for i := range c {
		if d.check(len(d.rest) >= 8); d.bad {
			return covered{}
		}
		c[i] = binary.LittleEndian.Uint64(d.rest)
		d.rest = d.rest[8:]
	}
	d.check(c[len(c)-1]>>(int(day/step)%64) == 0)
	return c
}

func (d *decoder) histogram() (h histogram) {
	count, last := d.uvarint(buckets), uint64(0)
	for k := uint64(0); k < count && !d.bad; k++ {
		step := d.uvarint(buckets - 1)
		d.check(step > 0 || k == 0)
		last += step
		weight := d.float()
		d.check(last < buckets && weight > 0)
		h.bucket, h.weight = append(h.bucket, uint16(last)), append(h.weight, weight)
	}
	return h
}

// float is an amount of at least 0.
func (d *decoder) float() float64 {
	if d.check(len(d.rest) >= 8); d.bad {
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	d.check(v >= 0 && v < math.MaxFloat64)
	return v
}
