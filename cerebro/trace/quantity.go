package trace

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A Quantity is an exact amount as Kubernetes writes it: 96, 500m, 512Gi. It
// is a whole number of the largest of the units 1, m, u and n that makes it
// one, so that equal amounts are equal values. The zero value is 0.
type Quantity struct {
	value int64
	unit  uint8 // index into units
}

// units are the units of dimensions, largest first, each a thousandth of the one before.
var units = [...]struct {
	suffix string
	one    int64 // units in an amount of 1
}{{"", 1}, {"m", 1e3}, {"u", 1e6}, {"n", 1e9}}

// Why a quantity is refused.
var (
	errNegative = errors.New("negative")
	errTooLarge = errors.New("above 2^50 units")
	errTooFine  = errors.New("finer than n")
)

// MakeQuantity returns value units of suffix unit: "", "m", "u" or "n".
func MakeQuantity(value int64, unit string) (Quantity, error) {
	for i, u := range units {
		if u.suffix == unit {
			q, err := reduce(value, uint8(i))
			if err != nil {
				return Quantity{}, fmt.Errorf("quantity %d%s: %w", value, unit, err)
			}
			return q, nil
		}
	}
	return Quantity{}, fmt.Errorf("unit %q: want \"\", m, u or n", unit)
}

// reduce brings an amount to its largest unit.
func reduce(value int64, unit uint8) (Quantity, error) {
	if value < 0 {
		return Quantity{}, errNegative
	}
	for ; unit > 0 && value%1000 == 0; unit-- {
		value /= 1000
	}
	if value > binpack.MaxValue {
		return Quantity{}, errTooLarge
	}
	return Quantity{value, unit}, nil
}

// ParseQuantity reads the syntax of Kubernetes quantities: a decimal number
// followed by nothing, an exponent (e3), a decimal suffix (n u µ m k M G T P
// E) or a binary one (Ki Mi Gi Ti Pi Ei). Where Kubernetes rounds, it refuses.
// Negative amounts, amounts finer than n and amounts that need more than 2⁵⁰
// of their largest unit are errors: no dimension can hold them.
func ParseQuantity(s string) (Quantity, error) {
	// Nearly all values of large traces are plain: digits, perhaps with a point.
	var mantissa int64
	digits, point := 0, -1
	i := 0
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && point < 0 {
			point = digits
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		mantissa = mantissa*10 + int64(c-'0')
		if digits++; digits > 15 {
			return parseAnyQuantity(s)
		}
	}
	fraction := 0
	if point >= 0 {
		fraction = digits - point
	}
	if digits == 0 || fraction > 0 && i < len(s) || fraction > 9 {
		return parseAnyQuantity(s)
	}
	if i < len(s) {
		return scale(mantissa, s[i:], s)
	}
	unit := (fraction + 2) / 3
	for ; fraction < 3*unit; fraction++ {
		mantissa *= 10
	}
	return reduce(mantissa, uint8(unit))
}

// scale is mantissa times the suffix, for the common suffixes and no overflow.
func scale(mantissa int64, suffix, s string) (Quantity, error) {
	ten, two, ok := suffixPower(suffix)
	if !ok {
		return parseAnyQuantity(s)
	}
	if ten < 0 {
		return reduce(mantissa, uint8(-ten/3))
	}
	factor := uint64(1) << two
	for ; ten > 0; ten -= 3 {
		factor *= 1000
	}
	hi, lo := bits.Mul64(uint64(mantissa), factor)
	if hi != 0 || lo > uint64(binpack.MaxValue) {
		return Quantity{}, errTooLarge
	}
	return Quantity{int64(lo), 0}, nil
}

// suffixPower is the power of ten or of two that a suffix denotes.
func suffixPower(suffix string) (ten int, two uint, ok bool) {
	switch suffix {
	case "":
		return 0, 0, true
	case "n":
		return -9, 0, true
	case "u", "µ":
		return -6, 0, true
	case "m":
		return -3, 0, true
	case "k":
		return 3, 0, true
	}
	const prefixes = "KMGTPE"
	i := strings.IndexByte(prefixes, suffix[0])
	switch {
	case i >= 0 && len(suffix) == 2 && suffix[1] == 'i':
		return 0, 10 * uint(i+1), true
	case i >= 1 && len(suffix) == 1:
		return 3 * (i + 1), 0, true
	}
	return 0, 0, false
}

// parseAnyQuantity is ParseQuantity without a shortcut.
func parseAnyQuantity(s string) (Quantity, error) {
	if s == "" {
		return Quantity{}, errors.New("empty")
	}
	number, suffix := splitNumber(s)
	negative := strings.HasPrefix(number, "-")
	number = strings.TrimLeft(number, "+-")
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" && fraction == "" {
		return Quantity{}, errors.New("not a number")
	}
	ten, two, ok := suffixPower(suffix)
	if !ok {
		if ten, ok = exponent(suffix); !ok {
			return Quantity{}, fmt.Errorf("unknown suffix %q; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei", suffix)
		}
	}
	// digits · 10^ten · 2^two, without zeros at either end of digits.
	digits := strings.TrimLeft(whole+fraction, "0")
	ten -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	ten += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return Quantity{}, nil
	case negative:
		return Quantity{}, errNegative
	case len(trimmed)+ten > 20:
		return Quantity{}, errTooLarge
	case len(trimmed) > 100 || ten < -100:
		// A suffix multiplies by 2⁶⁰ at most, which cannot make up for this many decimals.
		return Quantity{}, errTooFine
	}
	return exact(trimmed, ten, two)
}

// splitNumber cuts s after its sign, digits and at most one point.
func splitNumber(s string) (number, suffix string) {
	i, point := 0, false
	if s[0] == '+' || s[0] == '-' {
		i++
	}
	for ; i < len(s); i++ {
		if s[i] == '.' && !point {
			point = true
		} else if s[i] < '0' || s[i] > '9' {
			break
		}
	}
	return s[:i], s[i:]
}

// exponent reads e3, E-6 and the like. The result is clamped: larger values are
// refused anyway, unless the mantissa is zero.
func exponent(suffix string) (int, bool) {
	if len(suffix) < 2 || suffix[0] != 'e' && suffix[0] != 'E' {
		return 0, false
	}
	n, err := strconv.Atoi(suffix[1:])
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	const limit = 1 << 40 // longer than any text, so that no digits make up for it
	return min(max(n, -limit), limit), true
}

// exact is digits · 10^ten · 2^two as a Quantity.
func exact(digits string, ten int, two uint) (Quantity, error) {
	nano, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return Quantity{}, errors.New("not a number")
	}
	nano.Lsh(nano, two)
	ten += 9
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(ten, -ten))), nil)
	if ten >= 0 {
		nano.Mul(nano, power)
	} else if _, rest := nano.QuoRem(nano, power, new(big.Int)); rest.Sign() != 0 {
		return Quantity{}, errTooFine
	}
	unit, thousand := uint8(3), big.NewInt(1000)
	for unit > 0 {
		quotient, rest := new(big.Int).QuoRem(nano, thousand, new(big.Int))
		if rest.Sign() != 0 {
			break
		}
		nano = quotient
		unit--
	}
	if !nano.IsInt64() {
		return Quantity{}, errTooLarge
	}
	return reduce(nano.Int64(), unit)
}

// Float is the amount as a number.
func (q Quantity) Float() float64 { return float64(q.value) / float64(units[q.unit].one) }

// String is the canonical text: with a binary suffix where the amount is a
// multiple of 1024, otherwise a whole number with the suffix of its unit.
func (q Quantity) String() string {
	return string(q.append(nil))
}

func (q Quantity) append(buf []byte) []byte {
	value, suffix := q.value, units[q.unit].suffix
	if q.unit == 0 && value >= 1024 && value%1024 == 0 {
		power := min(bits.TrailingZeros64(uint64(value))/10, 6)
		value >>= 10 * power
		suffix = "KiMiGiTiPiEi"[2*power-2 : 2*power]
	}
	return append(strconv.AppendInt(buf, value, 10), suffix...)
}

// A valueError is a value that a dimension cannot hold.
type valueError struct {
	index int // in the values given to NewDimension
	err   error
}

func (e *valueError) Error() string { return e.err.Error() }
func (e *valueError) Unwrap() error { return e.err }

// NewDimension returns the dimension in whose unit, the largest of 1, m, u and
// n, all values are whole numbers, and the values in that unit. A value above
// 2⁵⁰ units is refused.
func NewDimension(name string, device bool, values []Quantity) (binpack.Dimension, []int64, error) {
	var unit uint8
	for _, q := range values {
		unit = max(unit, q.unit)
	}
	dim := binpack.Dimension{Name: name, Unit: units[unit].suffix, One: units[unit].one, Device: device}
	amounts := make([]int64, len(values))
	for i, q := range values {
		factor := units[unit].one / units[q.unit].one
		if q.value > binpack.MaxValue/factor {
			return dim, nil, &valueError{i, fmt.Errorf("%s %v in units of 1%s, which another value of the dimension needs: %w",
				name, q, dim.Unit, errTooLarge)}
		}
		amounts[i] = q.value * factor
	}
	return dim, amounts, nil
}

// FormatQuantity returns the canonical text of value units of dim. It depends on
// the amount alone, not on the unit that other values of dim require, and
// [ParseQuantity] returns the same amount.
func FormatQuantity(value int64, dim binpack.Dimension) string {
	return string(appendQuantity(nil, value, dim.One))
}

func appendQuantity(buf []byte, value, one int64) []byte {
	unit := uint8(0)
	for unit < 3 && units[unit].one < one {
		unit++
	}
	for ; unit > 0 && value%1000 == 0; unit-- {
		value /= 1000
	}
	return Quantity{value, unit}.append(buf)
}
