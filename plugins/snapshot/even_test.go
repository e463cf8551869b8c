package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A spread over zones with the default policies is that of the trace where each zone that counts has a node for the pod: the pod
// stays in moves, and is replaced later.
func TestSpreadByDefault(t *testing.T) {
	at := func(name, zone, spec string) string {
		return nodeAt(name, `"labels": {"topology.kubernetes.io/zone": "`+zone+`", "disk": "`+zone+`", "karpenter.sh/capacity-type": "`+map[bool]string{true: "spot", false: "on-demand"}[zone == "s"]+`"}, `, spec, may)
	}
	taint := `"taints": [{"key": "gpu", "effect": "NoSchedule"}]`
	two := []string{at("n1", "a", ""), at("n2", "b", "")}
	selector := `"nodeSelector": {"disk": "a"}, `
	for name, of := range map[string]struct {
		more              []string
		spec, constraints string
		known             bool
	}{
		"alike":                           {nil, "", "", true},
		"a tainted node in a zone":        {[]string{at("n3", "a", taint)}, "", "", true},
		"a tainted node is a zone":        {[]string{at("n3", "c", taint)}, "", "", false},
		"and honoured":                    {[]string{at("n3", "c", taint)}, "", `"nodeTaintsPolicy": "Honor", `, true},
		"and tolerated":                   {[]string{at("n3", "c", taint)}, `"tolerations": [{"key": "gpu"}], `, "", true},
		"a cordoned one":                  {[]string{at("n3", "c", `"unschedulable": true`)}, "", "", false},
		"one of spot":                     {[]string{at("n3", "s", "")}, "", "", false},
		"one of Windows":                  {[]string{renamed(at("n3", "c", ""), `"labels": {`, `"labels": {"kubernetes.io/os": "windows", `)}, "", "", false},
		"a node without a zone":           {[]string{nodeAt("n3", "", "", may)}, "", "", false},
		"the zones of the selector":       {nil, selector, "", true},
		"all zones beside the selector":   {nil, selector, `"nodeAffinityPolicy": "Ignore", `, false},
		"a number of zones":               {nil, "", `"minDomains": 2, `, false},
		"a selector that picks no others": {nil, "", `"matchLabelKeys": ["pod-template-hash"], `, false},
	} {
		pod := renamed(podText, `"phase": "Running"`, `"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]`, `"containers"`, of.spec+
			`"topologySpreadConstraints": [{"maxSkew": 1, `+of.constraints+`"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"pod-template-hash": "5d"}}}], "containers"`)
		facts, _, tr := clusterOf(t, append(append([]string{pod, renamed(pod, "web-1", "web-2", `"p1"`, `"p2"`)}, two...), of.more...)...)
		ignored, _ := tr.Source["ignored"].(map[string]any)
		follow, _ := facts["follow"].(map[string]any)
		require.Equal(t, of.known, ignored["shop/web-1"] == nil, name)
		require.Equal(t, of.known, follow["shop/web-1"] != nil, name)
		require.NotNil(t, tr.Source["fixed"].(map[string]any)["shop/web-1"], name)
		require.EqualValues(t, 1, max(1, tr.Instance.Groups[0].Zone.Skew), name)
	}
}
