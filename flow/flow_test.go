package flow

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAmounts(t *testing.T) {
	for text, want := range map[string]float64{"100k": 1e5, "1.8M": 1.8e6, "10G": 1e10, ".5": .5, "2T": 2e12, "7K": 7000, "1e3": 1000, "8.36M": 8_360_000} {
		got, err := ParseAmount(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		back, err := ParseAmount(FormatAmount(got))
		require.NoError(t, err)
		require.Equal(t, got, back)
	}
	for _, text := range []string{"", "k", "-1", "0", "NaN", "inf", "0x10", "1_000", "1Ki", "1e400", "10 G"} {
		_, err := ParseAmount(text)
		require.ErrorContains(t, err, "want a number", text)
	}
	require.Equal(t, "1.8M", FormatAmount(1.8e6))
	require.Equal(t, "999", FormatAmount(999))
	require.Equal(t, "8.36M", FormatAmount(8_360_000))
	require.Equal(t, "123.456789M", FormatAmount(123_456_789))
}

func TestThresholds(t *testing.T) {
	got, err := ParseThresholds("100k/1.8M/9.9M")
	require.NoError(t, err)
	require.Equal(t, Thresholds{100_000, 1_800_000, 9_900_000}, got)
	require.Equal(t, "100k/1.8M/9.9M", got.String())
	for sent, band := range map[int64]int{0: 0, 99_999: 0, 100_000: 1, 9_899_999: 2, 9_900_000: 3, 1e12: 3} {
		require.Equal(t, band, got.Band(sent), sent)
	}
	for text, want := range map[string]string{
		"":                    `threshold 1: "": want a number`,
		"100k/1M/":            `threshold 3: "": want a number`,
		"1M/100k":             "threshold 2: 100k comes after 1M: want them ascending",
		"1M/1000k":            "threshold 2: 1M is equal to the one before",
		"1/2/3/4/5/6/7/8":     "thresholds: 8, want at most 7",
		"1.5":                 `threshold 1: "1.5": want whole bytes`,
		"2T":                  `threshold 1: "2T": want at most 1T`,
		"-3":                  `threshold 1: "-3": want a number above 0`,
		"NaN/5":               `threshold 1: "NaN": want a number`,
		"100k/1.8M/9.9M/nine": `threshold 4: "nine": want a number`,
	} {
		_, err := ParseThresholds(text)
		require.ErrorContains(t, err, want, text)
	}
	require.ErrorContains(t, Thresholds{}.Validate(), "none")
	require.ErrorContains(t, Thresholds{0}.Validate(), "want 1 to 1T")
}

// Uniform on 0 to 100 for half of the flows, 100 for a quarter, uniform to 200 for the rest.
const small = "size_bytes,cdf\n# a comment\n0,0\n100,.5\n100,.75\n200,1\n"

func TestSizes(t *testing.T) {
	s, err := ParseSizes("small", strings.NewReader(small), false)
	require.NoError(t, err)
	require.InDelta(t, .5*50+.25*100+.25*150, s.Mean(), 1e-12)
	require.Equal(t, 200., s.Largest())
	first, second := s.Capped(50) // a quarter below: E = .25·25 + .75·50
	require.InDelta(t, .25*25+.75*50, first, 1e-12)
	require.InDelta(t, .25*2500./3+.75*2500, second, 1e-9)
	first, second = s.Below(100)
	require.InDelta(t, .5*50+.25*100, first, 1e-12)
	require.InDelta(t, .5*10000./3+.25*10000, second, 1e-9)
	require.InDelta(t, .5/100*math.Log(2)+.25/100, s.Inverse(50, 100), 1e-12)
	for x, want := range map[float64]float64{-1: 0, 0: 0, 50: .25, 99: .495, 100: .75, 150: .875, 200: 1, 300: 1} {
		require.InDelta(t, want, s.CDF(x), 1e-12, x)
	}
	for u, want := range map[float64]float64{0: 0, .25: 50, .5: 100, .6: 100, .75: 100, .875: 150, 1: 200} {
		require.InDelta(t, want, s.Quantile(u), 1e-9, u)
	}
	twice := s.Scaled(2)
	require.InDelta(t, 2*s.Mean(), twice.Mean(), 1e-12)
	require.Equal(t, 2*s.Quantile(.3), twice.Quantile(.3))

	steps, err := ParseSizes("steps", strings.NewReader("size_bytes,cdf\n8,.5\n16,1\n"), true)
	require.NoError(t, err)
	require.Equal(t, 12., steps.Mean())
	require.Equal(t, 8., steps.Quantile(.5))
	require.Equal(t, 16., steps.Quantile(.51))
	first, second = steps.Capped(10)
	require.InDelta(t, 9., first, 1e-12)
	require.InDelta(t, (64+100.)/2, second, 1e-12)
}

// Draws have the moments of the distribution.
func TestDraws(t *testing.T) {
	s, err := ParseSizes("small", strings.NewReader(small), false)
	require.NoError(t, err)
	seen := make([]float64, 200_000)
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range seen {
		seen[i] = s.Quantile(rng.Float64())
	}
	sample, err := SampleSizes("seen", seen)
	require.NoError(t, err)
	for _, a := range []float64{20, 100, 130, 500} {
		first, second := s.Capped(a)
		f, q := sample.Capped(a)
		require.InEpsilon(t, first, f, .01, a)
		require.InEpsilon(t, second, q, .01, a)
		require.InDelta(t, s.CDF(a-1), sample.CDF(a-1), .005)
	}
	require.InEpsilon(t, s.Inverse(40, 150), sample.Inverse(40, 150), .01)
	_, err = SampleSizes("none", nil)
	require.ErrorContains(t, err, "no sizes")
}

func TestRefusedSizes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "f.csv: no line",
		"# c\n\nsize,cdf\n":                   `f.csv:3: columns "size" and "cdf", want size_bytes and cdf`,
		"size,cdf\n":                          `f.csv:1: columns "size" and "cdf", want size_bytes and cdf`,
		"size_bytes,cdf\n":                    "f.csv:1: no sizes",
		"# c\n\nsize_bytes,cdf\n":             "f.csv:3: no sizes",
		"size_bytes,cdf\n1,0\n2,x\n":          `f.csv:3: cdf: "x" is no number`,
		"size_bytes,cdf\n1e-300,1\n":          "f.csv: size_bytes: the mean is 1e-300, want at least one byte",
		"size_bytes,cdf\n1,0\n2\n":            "f.csv:3: want two columns, size_bytes and cdf",
		"size_bytes,cdf\n1,0\n\"2,1\n":        "f.csv:3: extraneous or missing \" in quoted-field",
		"size_bytes,cdf\n-1,0\n":              "f.csv:2: size_bytes: -1: want 0 to 1e15",
		"size_bytes,cdf\nNaN,0\n":             "f.csv:2: size_bytes: NaN",
		"size_bytes,cdf\n1,NaN\n":             "f.csv:2: cdf: NaN",
		"size_bytes,cdf\n5,.5\n4,1\n":         "f.csv:3: size_bytes: 4 comes after 5: want them ascending",
		"size_bytes,cdf\n5,.5\n6,.4\n":        "f.csv:3: cdf: 0.4 comes after 0.5: want them ascending",
		"size_bytes,cdf\n5,.5\n5,.5\n6,1\n":   "f.csv:3: size_bytes: 5, cdf 0.5: the same as before",
		"size_bytes,cdf\n5,.5\n6,.99\n":       "f.csv:3: the last cdf is 0.99, want 1",
		"size_bytes,cdf\n5,.5\n6,1.2\n":       "f.csv:3: cdf: 1.2: want 0 to 1",
		"size_bytes,cdf\n0,1\n":               "f.csv:2: every size is 0",
		"size_bytes,cdf\n5,.5\n6e15,1\n":      "f.csv:3: size_bytes: 6e+15: want 0 to 1e15",
		"size_bytes,cdf\n# x\n5,.5\n+Inf,1\n": "f.csv:4: size_bytes: +Inf",
	} {
		_, err := ParseSizes("f.csv", strings.NewReader(text), false)
		require.ErrorContains(t, err, want, text)
	}
}

// Public distributions, with the means that their sources give.
func TestPublicSizes(t *testing.T) {
	folder := os.Getenv("SIGMA_DATA")
	if folder == "" {
		t.Skip("SIGMA_DATA is not set")
	}
	files, err := filepath.Glob(filepath.Join(folder, "flows", "*.csv"))
	require.NoError(t, err)
	means := map[string]float64{"websearch_dctcp": 1.71e6, "datamining_vl2": 12.7e6}
	read := 0
	for _, name := range files {
		base := strings.TrimSuffix(filepath.Base(name), ".csv")
		if strings.HasPrefix(base, "pias") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		s, err := ParseSizes(base, bytes.NewReader(text), strings.HasPrefix(base, "homa"))
		require.NoError(t, err)
		read++
		if want := means[base]; want > 0 {
			require.InEpsilon(t, want, s.Mean(), .01, base)
		}
	}
	require.Equal(t, 13, read)
}

// Whatever is read is a distribution: ascending, with finite moments, and quantiles that its CDF knows.
func FuzzSizes(f *testing.F) {
	f.Add([]byte(small), false)
	f.Add([]byte("size_bytes,cdf\n8,.5\n16,1\n"), true)
	f.Add([]byte("size_bytes,cdf\n0,0\n1e-300,.5\n1e15,1\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, steps bool) {
		s, err := ParseSizes("f", bytes.NewReader(text), steps)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "f:"), err)
			return
		}
		last := 0.
		for k := range 101 {
			u := float64(k) / 100
			x := s.Quantile(u)
			require.GreaterOrEqual(t, x, last)
			require.LessOrEqual(t, x, s.Largest())
			require.GreaterOrEqual(t, s.CDF(x*(1+1e-9))+1e-6, u)
			last = x
		}
		one, two := s.Capped(s.Largest())
		require.InEpsilon(t, s.Mean(), one, 1e-9)
		require.False(t, math.IsNaN(two) || math.IsInf(two, 0))
	})
}

// Whatever is read is in order and is written as it is read.
func FuzzPolicy(f *testing.F) {
	f.Add("100k/1.8M/9.9M")
	f.Add("1/2/3/4/5/6/7")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseThresholds(text)
		if err != nil {
			return
		}
		again, err := ParseThresholds(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		band := 0
		for i, v := range p {
			require.Equal(t, i, p.Band(v-1))
			require.Equal(t, i+1, p.Band(v))
			require.GreaterOrEqual(t, p.Band(v), band)
			band = p.Band(v)
		}
	})
}
