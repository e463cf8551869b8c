package trace

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

func TestParseQuantity(t *testing.T) {
	for _, c := range []struct {
		text  string
		value int64
		unit  string
		print string
	}{
		{"96", 96, "", "96"},
		{"0", 0, "", "0"},
		{"-0", 0, "", "0"},
		{"0e99999999999999999999", 0, "", "0"},
		{"+5", 5, "", "5"},
		{"500m", 500, "m", "500m"},
		{"4000m", 4, "", "4"},
		{"1500u", 1500, "u", "1500u"},
		{"1500µ", 1500, "u", "1500u"},
		{"7n", 7, "n", "7n"},
		{"1.5", 1500, "m", "1500m"},
		{".25", 250, "m", "250m"},
		{"3.", 3, "", "3"},
		{"1.0000", 1, "", "1"},
		{"0.0000001", 100, "n", "100n"},
		{"1e3", 1000, "", "1000"},
		{"1E3", 1000, "", "1000"},
		{"15e-1", 1500, "m", "1500m"},
		{"1e-9", 1, "n", "1n"},
		{"2k", 2000, "", "2000"},
		{"3M", 3_000_000, "", "3000000"}, // = 2929.6875 Ki
		{"1G", 1_000_000_000, "", "1000000000"},
		{"1.5G", 1_500_000_000, "", "1500000000"},
		{"1Ki", 1024, "", "1Ki"},
		{"1023", 1023, "", "1023"},
		{"1536", 1536, "", "1536"},
		{"3072", 3072, "", "3Ki"},
		{"512Gi", 512 << 30, "", "512Gi"},
		{"0.5Gi", 512 << 20, "", "512Mi"},
		{"0.1Ki", 102_400, "m", "102400m"}, // 102.4
		{"4Ti", 4 << 40, "", "4Ti"},
		{"1Pi", 1 << 50, "", "1Pi"},
		{"0.001P", 1e12, "", "976562500Ki"},
		{"0.000000000000001E", 1000, "", "1000"},
		{"1" + strings.Repeat("0", 30) + "e-30", 1, "", "1"},
	} {
		q, err := ParseQuantity(c.text)
		require.NoError(t, err, c.text)
		want, err := MakeQuantity(c.value, c.unit)
		require.NoError(t, err, c.text)
		require.Equal(t, want, q, c.text)
		require.Equal(t, c.print, q.String(), c.text)
		again, err := ParseQuantity(c.print)
		require.NoError(t, err)
		require.Equal(t, q, again, c.text)
	}
}

func TestParseQuantityRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "empty",
		".":                  "not a number",
		"-":                  "not a number",
		"Gi":                 "not a number",
		"+-5":                "not a number",
		" 5":                 "not a number",
		"5 ":                 `unknown suffix " "; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"12Qi":               `unknown suffix "Qi"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"1.2.3":              `unknown suffix ".3"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"1K":                 `unknown suffix "K"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"1ki":                `unknown suffix "ki"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"1e":                 `unknown suffix "e"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"1e3Ki":              `unknown suffix "e3Ki"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"0x10":               `unknown suffix "x10"; there are n u m k M G T P E Ki Mi Gi Ti Pi Ei`,
		"NaN":                "not a number",
		"-1":                 "negative",
		"-1m":                "negative",
		"-1.5Gi":             "negative",
		"1125899906842625":   "above 2^50 units", // 2^50 + 1
		"1025Ti":             "above 2^50 units",
		"1E":                 "above 2^50 units",
		"1e30":               "above 2^50 units",
		"1e999999999999":     "above 2^50 units",
		"2000000.000000001":  "above 2^50 units", // 2·10^15 n
		"0.1n":               "finer than n",
		"1e-10":              "finer than n",
		"1e-999999999999":    "finer than n",
		"0.00000000000001Ki": "finer than n", // = 0.01024 n
	} {
		_, err := ParseQuantity(text)
		require.EqualError(t, err, want, text)
	}
	_, err := MakeQuantity(1, "k")
	require.ErrorContains(t, err, `unit "k"`)
	_, err = MakeQuantity(-1, "m")
	require.ErrorContains(t, err, "negative")
}

func TestNewDimension(t *testing.T) {
	parse := func(texts ...string) (values []Quantity) {
		for _, s := range texts {
			q, err := ParseQuantity(s)
			require.NoError(t, err)
			values = append(values, q)
		}
		return values
	}
	for _, c := range []struct {
		texts []string
		unit  string
		one   int64
		want  []int64
	}{
		{nil, "", 1, []int64{}},
		{[]string{"96", "1Ki"}, "", 1, []int64{96, 1024}},
		{[]string{"96", "2000m"}, "", 1, []int64{96, 2}},
		{[]string{"96", "500m"}, "m", 1e3, []int64{96_000, 500}},
		{[]string{"500m", "3u"}, "u", 1e6, []int64{500_000, 3}},
		{[]string{"1", "3n", "0"}, "n", 1e9, []int64{1_000_000_000, 3, 0}},
	} {
		dim, values, err := NewDimension("cpu", true, parse(c.texts...))
		require.NoError(t, err)
		require.Equal(t, binpack.Dimension{Name: "cpu", Unit: c.unit, One: c.one, Device: true}, dim)
		require.Equal(t, c.want, values)
		for i, v := range values {
			q, err := ParseQuantity(FormatQuantity(v, dim))
			require.NoError(t, err)
			require.Equal(t, parse(c.texts[i])[0], q)
		}
	}
	// 4Ti · 1000 is above 2^50.
	_, _, err := NewDimension("memory", false, parse("1m", "4Ti"))
	require.ErrorContains(t, err, "memory 4Ti in units of 1m, which another value of the dimension needs: above 2^50 units")
}

// FuzzQuantity compares with rational arithmetic wherever ParseQuantity takes a text.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"96", "500m", "512Gi", "1.5", "1e3", "0.1Ki", "1E-9", "7µ", "1e999", "", "-0", "+.5M"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuantity(s)
		if slow, slowErr := parseAnyQuantity(s); err == nil {
			require.NoError(t, slowErr)
			require.Equal(t, slow, q)
		} else {
			require.Error(t, slowErr)
			return
		}
		again, err := ParseQuantity(q.String())
		require.NoError(t, err)
		require.Equal(t, q, again)
		dim, values, err := NewDimension("d", false, []Quantity{q})
		require.NoError(t, err)
		require.Equal(t, q.String(), FormatQuantity(values[0], dim))
		if len(s) < 100 {
			require.Zero(t, rational(t, s).Cmp(big.NewRat(q.value, units[q.unit].one)), s)
		}
	})
}

// rational reads a quantity in the most obvious way.
func rational(t *testing.T, s string) *big.Rat {
	number, suffix := splitNumber(s)
	factor := big.NewRat(1, 1)
	ten, two, ok := suffixPower(suffix)
	if !ok {
		ten, _ = exponent(suffix)
	}
	if ten > 1000 || ten < -1000 {
		return new(big.Rat) // only zero has such an exponent
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(ten, -ten))), nil)
	factor.SetInt(power)
	if ten < 0 {
		factor.Inv(factor)
	}
	factor.Mul(factor, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), two)))
	r, ok := new(big.Rat).SetString(number)
	require.True(t, ok, number)
	return r.Mul(r, factor)
}

func BenchmarkParseQuantity(b *testing.B) {
	for _, s := range []string{"512Gi", "0.25", "1.00390625Gi"} {
		b.Run("text="+s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseQuantity(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
