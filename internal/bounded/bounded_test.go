package bounded_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/bounded"
)

func Example() {
	fmt.Println(bounded.Times(int64(90), time.Second), bounded.Times(int64(math.MaxInt64), time.Second))
	// Output: 1m30s 876000h0m0s
}

func TestTimes(t *testing.T) {
	for _, unit := range []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour} {
		for _, n := range []int64{0, 1, 30, 86_400} {
			require.Equal(t, time.Duration(n)*unit, bounded.Times(n, unit))
			require.Equal(t, -time.Duration(n)*unit, bounded.Times(-n, unit))
		}
		for _, n := range []int64{math.MaxInt64, math.MaxInt64 / 2, 18_446_744_073_709_552} { // the last × 1000 is 384 in 64 bits
			require.Equal(t, bounded.Longest, bounded.Times(n, unit), "%d × %v", n, unit)
		}
		require.Equal(t, -bounded.Longest, bounded.Times(int64(math.MinInt64), unit))
	}
	require.Equal(t, bounded.Longest, bounded.Times(int32(math.MaxInt32), time.Hour))
	require.Panics(t, func() { bounded.Times(int64(1), 0) })
}

func TestSecondsAndInt(t *testing.T) {
	require.Equal(t, 1500*time.Millisecond, bounded.Seconds(1.5))
	require.Equal(t, -time.Second, bounded.Seconds(-1))
	require.Equal(t, bounded.Longest, bounded.Seconds(math.Inf(1)))
	require.Equal(t, -bounded.Longest, bounded.Seconds(-1e300))
	require.Zero(t, bounded.Seconds(math.NaN()))
	require.Equal(t, int64(7), bounded.Int(7.9))
	require.Equal(t, int64(math.MaxInt64), bounded.Int(1e30))
	require.Equal(t, int64(math.MaxInt64), bounded.Int(math.MaxInt64))
	require.Equal(t, int64(math.MinInt64), bounded.Int(math.Inf(-1)))
	require.Zero(t, bounded.Int(math.NaN()))
}

func FuzzBounded(f *testing.F) {
	f.Add(int64(9_223_372_037), 1e300)
	f.Add(int64(math.MinInt64), math.Inf(1))
	f.Add(int64(-1), math.NaN())
	f.Fuzz(func(t *testing.T, n int64, x float64) {
		for _, unit := range []time.Duration{time.Nanosecond, time.Second, time.Hour} {
			d := bounded.Times(n, unit)
			require.LessOrEqual(t, d.Abs(), bounded.Longest)
			require.GreaterOrEqual(t, d+bounded.Longest, time.Duration(0))
			require.Equal(t, n < 0, d < 0)
		}
		d := bounded.Seconds(x)
		require.LessOrEqual(t, d.Abs(), bounded.Longest)
		require.False(t, x > 0 && d < 0 || x < 0 && d > 0)
	})
}

func TestText(t *testing.T) {
	require.Equal(t, "two lines", bounded.Text("two\nlines"))
	for _, text := range []string{strings.Repeat("é", 1000) + "x", "x" + strings.Repeat("é", 1000)} {
		cut := bounded.Text(text)
		require.LessOrEqual(t, len(cut), 1024)
		require.Greater(t, len(cut), 1020)
		require.True(t, utf8.ValidString(cut))
		require.True(t, strings.HasSuffix(cut, " …"))
	}
	require.Equal(t, "\uFFFD", bounded.Text(strings.Repeat("\xff", 2000)), "not UTF-8: one sign for all")
	whole := strings.Repeat("é", 512)
	require.Equal(t, whole, bounded.Text(whole))
}
