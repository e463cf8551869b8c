package cerebro

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWide compares the 128-bit sum with math/big, far beyond 2⁶².
func TestWide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var sum wide
	want := new(big.Int)
	for i := range 20000 {
		v := rng.Int64N(math.MaxInt64)
		if i > 10000 || i%3 == 0 {
			v = -v
		}
		if want.Sign() < 0 { // a fleet holds nothing negative
			v = math.MaxInt64
		}
		sum.add(v)
		want.Add(want, big.NewInt(v))
		if want.Sign() >= 0 {
			f, _ := new(big.Float).SetInt(want).Float64()
			require.InEpsilon(t, f+1, sum.float()+1, 1e-15)
		}
	}
}
