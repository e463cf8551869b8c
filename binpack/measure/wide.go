package measure

import "math/bits"

// wide is an unsigned sum of up to 128 bits: single amounts reach 2⁵⁰, so sums over
// a large fleet may pass 64 bits.
type wide struct{ hi, lo uint64 }

func (w *wide) add(v int64) { w.addTimes(v, 1) }

// addTimes adds n times v. Neither is negative.
func (w *wide) addTimes(v, n int64) {
	hi, lo := bits.Mul64(uint64(v), uint64(n))
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, _ = bits.Add64(w.hi, hi, carry)
}

func (w *wide) zero() bool { return w.hi == 0 && w.lo == 0 }

func (w *wide) float() float64 { return float64(float64(w.hi)*(1<<64)) + float64(w.lo) }

// share is part ÷ whole, 0 when there is no whole.
func share(part, whole wide) float64 {
	if whole.zero() {
		return 0
	}
	return part.float() / whole.float()
}
