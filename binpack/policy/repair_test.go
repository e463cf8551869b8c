package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const repairText = `apiVersion: sigma-scheduler.io/v1alpha1
kind: PlacementPolicy
metadata: {name: general}
spec:
  featureVersion: 1
  model: linear
  knowledge: K1
  features: [util]
  weights: [1]
  repair: {mode: Enabled, chain: 3}
`

func TestRepair(t *testing.T) {
	o, err := Parse("p.yaml", []byte(repairText))
	require.NoError(t, err)
	require.Equal(t, "Enabled, chain 3, movesPerHour 20, minReplicas 2", o.Spec.Repair.String())
	again, err := Parse("p.yaml", o.Bytes())
	require.NoError(t, err)
	require.Equal(t, o.Spec.Repair, again.Spec.Repair)
	plain, err := Parse("p.yaml", []byte(strings.Replace(repairText, "  repair: {mode: Enabled, chain: 3}\n", "", 1)))
	require.NoError(t, err)
	require.Equal(t, o.Digest(), plain.Digest(), "it changes no ranking")
	require.Equal(t, RepairDisabled, plain.Spec.Repair.Complete().Mode)

	for replaced, want := range map[string]string{
		"mode: Auto":          `p.yaml:10: spec.repair.mode "Auto": want Disabled, DryRun or Enabled`,
		"chain: 0":            "p.yaml:10: spec.repair.chain 0: want 1 to 32",
		"chain: 33":           "p.yaml:10: spec.repair.chain 33: want 1 to 32",
		"chain: 2.5":          "p.yaml:10: spec.repair 2.5: want a whole number",
		"movesPerHour: 0":     "p.yaml:10: spec.repair.movesPerHour 0: want 1 to 10000",
		"movesPerHour: 10001": "p.yaml:10: spec.repair.movesPerHour 10001: want 1 to 10000",
		"minReplicas: 0":      "p.yaml:10: spec.repair.minReplicas 0: want 1 to 1000",
		"chains: 3":           "p.yaml: yaml: unmarshal errors:\n  line 10: field chains not found in type policy.Repair",
	} {
		_, err := Parse("p.yaml", []byte(strings.Replace(repairText, "mode: Enabled, chain: 3", replaced, 1)))
		require.EqualError(t, err, want)
	}
}
