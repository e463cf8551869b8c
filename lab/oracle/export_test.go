package oracle

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/export"
)

// TestExport: upstream reads and accepts what is exported, and its plugin with these arguments scores as
// the rule that was exported.
func TestExport(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 36))
	for range 200 {
		c := rule.Choice{Name: export.Rules(export.KubeScheduler)[rng.IntN(3)], Resources: map[string]int64{}}
		for _, name := range resources[:1+rng.IntN(3)] {
			c.Resources[name.Name] = 1 + rng.Int64N(100)
		}
		if c.Name == "requestedtocapacityratio" {
			for _, u := range []int64{0, 25, 50, 75, 90, 100} {
				c.Shape = append(c.Shape, []int64{u, rng.Int64N(11)})
			}
		}
		if err := export.Check(c, export.KubeScheduler); err != nil {
			t.Fatal(err)
		}
		text, err := export.Text(c, export.KubeScheduler, "")
		if err != nil {
			t.Fatal(err)
		}
		object, err := runtime.Decode(scheme.Codecs.UniversalDecoder(), []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		read := object.(*config.KubeSchedulerConfiguration)
		if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		profile := read.Profiles[0]
		if profile.SchedulerName != "default-scheduler" || len(profile.Plugins.Score.Enabled) != 1 || profile.Plugins.Score.Enabled[0].Name != "NodeResourcesFit" {
			t.Fatalf("profile %s scores with %v", profile.SchedulerName, profile.Plugins.Score.Enabled)
		}
		at := slices.IndexFunc(profile.PluginConfig, func(p config.PluginConfig) bool { return p.Name == "NodeResourcesFit" })
		plugin, err := noderesources.NewFit(t.Context(), profile.PluginConfig[at].Args, nil, feature.Features{})
		if err != nil {
			t.Fatal(err)
		}
		pol, err := (&rule.Settings{Choice: rule.Choice{Name: c.Name, Resources: maps.Clone(c.Resources), Shape: c.Shape}}).Policy("rule")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			s := draw(rng)
			if want, got := theirs(t, plugin.(fwk.ScorePlugin), s), ours(t, pol, s, request.counted); got != float64(want) {
				t.Fatalf("case %d of %s, %+v: upstream %d, ours %v", i, c.String(), s, want, got)
			}
		}
	}
}
