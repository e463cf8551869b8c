package policies_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	_ "github.com/sigma-scheduler/sigma/lab/policies"
	_ "github.com/sigma-scheduler/sigma/lab/population"
	_ "github.com/sigma-scheduler/sigma/lab/rollout"
)

// shippedDigest is that of the model shipped in the product, whose table has the digest of the
// file that only the laboratory has.
const shippedDigest = "sha256:06c900bd7a7d5ce39a41e7e4317933e26b6f7c5db22fdd52afce21854a3da38d"

// TestTable: here the table of the model shipped is whole, and its digest is the product's.
func TestTable(t *testing.T) {
	require.Equal(t, shippedDigest, policy.Shipped().Digest())
	var names []string
	for _, f := range policy.ShippedFiles() {
		names = append(names, f.Name)
	}
	require.Contains(t, names, "general-k0-plain-1d.yaml")
}

// TestFiles: every file is read, also by its name alone.
func TestFiles(t *testing.T) {
	for _, name := range []string{
		"general-k0-clock-plain-1d.yaml", "general-k0-plain-1d.yaml", "orlib-k0.yaml", "orlib-k0-clock.yaml", "weibull-k0.yaml", "weibull-k0-clock.yaml",
		"rollout-k1.yaml", "rollout-k1-total.yaml",
	} {
		text, err := policies.Files.ReadFile(name)
		require.NoError(t, err)
		object, err := policy.Parse(name, text)
		require.NoError(t, err)
		p, err := object.Policy()
		require.NoError(t, err)
		require.LessOrEqual(t, p.Knowledge(), binpack.K1Clock)
	}
}
