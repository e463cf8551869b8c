package scheme

import (
	"fmt"
	"sync/atomic"

	upstreamv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// decoded is the configuration decoded last that has other profiles than the default one; nil before the first.
var decoded atomic.Pointer[upstreamv1.KubeSchedulerConfiguration]

// PluginConfig returns the arguments of a profile's plugins, from the configuration decoded last and with
// defaults. The framework hands a plugin its own arguments alone. It is nil if that
// configuration lacks the profile.
func PluginConfig(schedulerName string) ([]schedconfig.PluginConfig, error) {
	from := decoded.Load()
	if from == nil {
		return nil, nil
	}
	var to schedconfig.KubeSchedulerConfiguration
	if err := schedscheme.Scheme.Convert(from.DeepCopy(), &to, nil); err != nil {
		return nil, fmt.Errorf("arguments of the profile %s: %w", schedulerName, err)
	}
	for _, profile := range to.Profiles {
		if profile.SchedulerName == schedulerName {
			return profile.PluginConfig, nil
		}
	}
	return nil, nil
}
