package scheme

import (
	"slices"

	upstreamv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// bindInPlace puts Sigma's Bind directly before that of DefaultBinder, which leaves no pod to a plugin
// after it, as Sigma leaves none: the plugins that a profile calls before DefaultBinder are called before
// Sigma. Without DefaultBinder Sigma is the last. If a profile itself lists Sigma under bind, the order
// of its list holds.
//
// The framework first calls the plugins of bind that multiPoint has too, then those of multiPoint alone,
// then those of bind alone. A plugin both enabled and disabled under bind is of the last kind.
func bindInPlace(plugins *upstreamv1.Plugins, defaults []upstreamv1.Plugin) {
	set, multi := &plugins.Bind, plugins.MultiPoint.Enabled
	if has(set.Disabled, "*") || has(set.Disabled, sigma) {
		return
	}
	own, binder := index(set.Enabled, sigma), index(set.Enabled, names.DefaultBinder)
	expanded := index(multi, names.DefaultBinder) // without those that are disabled there
	if has(set.Disabled, names.DefaultBinder) {
		expanded = -1
	}
	lacks := func(in []upstreamv1.Plugin) func(upstreamv1.Plugin) bool {
		return func(p upstreamv1.Plugin) bool { return !has(in, p.Name) }
	}
	bind := upstreamv1.Plugin{Name: sigma}
	switch {
	case own >= 0:
		if slices.ContainsFunc(set.Enabled[:own], lacks(multi)) { // it would follow Sigma
			set.Disabled = append(append(set.Disabled, set.Enabled...), upstreamv1.Plugin{Name: names.DefaultBinder})
		}
		return
	case binder >= 0:
		set.Enabled = slices.Insert(set.Enabled, binder, bind)
	case expanded < 0:
		set.Enabled = append(set.Enabled, bind)
	case slices.ContainsFunc(multi[:expanded], lacks(defaults)):
		set.Enabled = slices.Insert(set.Enabled, 0, bind)
		set.Disabled, expanded = append(set.Disabled, upstreamv1.Plugin{Name: names.DefaultBinder}), -1
	default: // behind those of multiPoint too, which the framework calls first
		late := slices.DeleteFunc(slices.Clone(set.Enabled), func(p upstreamv1.Plugin) bool { return !lacks(multi)(p) })
		set.Enabled = append(append(slices.DeleteFunc(set.Enabled, lacks(multi)), bind), late...)
	}
	if expanded < 0 {
		set.Disabled = append(set.Disabled, bind)
	}
}

func index(plugins []upstreamv1.Plugin, name string) int {
	return slices.IndexFunc(plugins, func(p upstreamv1.Plugin) bool { return p.Name == name })
}

func has(plugins []upstreamv1.Plugin, name string) bool { return index(plugins, name) >= 0 }
