// Package scheme registers SigmaArgs with the scheduler that imports it: its
// configuration file is then decoded with Sigma's arguments checked field by
// field, and a profile without them gets the defaults. In a profile that has Sigma at
// all extension points (multiPoint), Sigma's Bind takes the place of upstream's; and its PostFilter
// precedes preemption, unless the profile lists plugins for that.
package scheme

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	upstreamv1 "k8s.io/kube-scheduler/config/v1"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	upstream "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	v1 "github.com/sigma-scheduler/sigma/plugins/apis/config/v1"
)

// The scheduler filled its scheme before this package's builders were complete. Others
// may fill it once more: the last registration of the builder stays active.
func init() {
	upstreamv1.SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddTypeDefaultingFunc(&upstreamv1.KubeSchedulerConfiguration{}, setDefaults)
		return nil
	})
	utilruntime.Must(config.AddToScheme(schedscheme.Scheme))
	utilruntime.Must(v1.AddToScheme(schedscheme.Scheme))
}

const sigma = "Sigma"

func setDefaults(object any) {
	c, plain := object.(*upstreamv1.KubeSchedulerConfiguration), upstreamv1.KubeSchedulerConfiguration{}
	upstream.SetObjectDefaults_KubeSchedulerConfiguration(c)
	upstream.SetObjectDefaults_KubeSchedulerConfiguration(&plain)
	for _, profile := range c.Profiles {
		if has(profile.Plugins.MultiPoint.Enabled, sigma) {
			bindInPlace(profile.Plugins, plain.Profiles[0].Plugins.MultiPoint.Enabled)
			comeFirst(&profile.Plugins.PostFilter)
		}
	}
	if !equality.Semantic.DeepEqual(c.Profiles, plain.Profiles) {
		decoded.Store(c.DeepCopy())
	}
}

// comeFirst puts Sigma's PostFilter before DefaultPreemption, which would evict pods for one that
// moves can make room for. By multiPoint alone upstream's plugins are first.
func comeFirst(set *upstreamv1.PluginSet) {
	if len(set.Enabled)+len(set.Disabled) == 0 {
		set.Enabled = []upstreamv1.Plugin{{Name: sigma}}
	}
}
