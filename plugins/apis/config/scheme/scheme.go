// Package scheme makes SigmaArgs known to the scheduler that imports it: its
// configuration file is then decoded with Sigma's arguments checked field by
// field, and a profile without them gets the defaults. In a profile that has Sigma at
// all extension points (multiPoint) and does not say which plugins bind, Sigma's Bind
// comes before upstream's; and its PostFilter before preemption, where the profile does not name
// plugins for that.
package scheme

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	upstreamv1 "k8s.io/kube-scheduler/config/v1"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	upstream "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	v1 "github.com/sigma-scheduler/sigma/plugins/apis/config/v1"
)

// The scheduler filled its scheme before this package's builders were complete. Others
// may fill it once more: what the builder has registered last stays in force.
func init() {
	upstreamv1.SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddTypeDefaultingFunc(&upstreamv1.KubeSchedulerConfiguration{}, setDefaults)
		return nil
	})
	utilruntime.Must(config.AddToScheme(schedscheme.Scheme))
	utilruntime.Must(v1.AddToScheme(schedscheme.Scheme))
}

func setDefaults(object any) {
	c := object.(*upstreamv1.KubeSchedulerConfiguration)
	upstream.SetObjectDefaults_KubeSchedulerConfiguration(c)
	for _, profile := range c.Profiles {
		comeFirst(profile.Plugins)
	}
}

// comeFirst puts Sigma's Bind before that of DefaultBinder, which leaves no pod to a
// plugin after it, and its PostFilter before DefaultPreemption, which would evict pods for one that
// moves can make room for. By multiPoint alone upstream's plugins come first.
func comeFirst(plugins *upstreamv1.Plugins) {
	sigma := func(p upstreamv1.Plugin) bool { return p.Name == "Sigma" }
	if !slices.ContainsFunc(plugins.MultiPoint.Enabled, sigma) {
		return
	}
	for _, set := range []*upstreamv1.PluginSet{&plugins.Bind, &plugins.PostFilter} {
		if len(set.Enabled)+len(set.Disabled) == 0 {
			set.Enabled = []upstreamv1.Plugin{{Name: "Sigma"}}
		}
	}
}
