package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func requests(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// containers draws what a pod needs.
func (d *drawer) containers(_ *workload, p *v1.PodTemplateSpec) {
	s := &p.Spec
	size := func() v1.ResourceRequirements {
		r := v1.ResourceRequirements{Requests: requests(one(d, "50m", "100m", "250m", "500m", "1", "1500m", "0.5"), one(d, "64Mi", "256Mi", "1Gi", "1G", "123456789"))}
		switch {
		case d.chance(.06):
			r.Requests = nil
		case d.chance(.06): //nolint:gocritic // another draw; limits become requests
			r.Limits, r.Requests = r.Requests, nil
		}
		return r
	}
	s.Containers = []v1.Container{{Name: "main", Image: "x", Resources: size()}}
	if d.chance(.15) {
		s.Containers = append(s.Containers, v1.Container{Name: "second", Image: "x", Resources: size()})
	}
	for d.chance(.1) {
		c := v1.Container{Name: "init" + string(rune('a'+len(s.InitContainers))), Image: "x", Resources: size()}
		if d.chance(.5) { // a sidecar
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		s.InitContainers = append(s.InitContainers, c)
	}
	main := &s.Containers[0].Resources
	for _, extra := range []struct {
		name   v1.ResourceName
		amount string
		chance float64
	}{{gpu, "1", .06}, {"hugepages-2Mi", "64Mi", .02}, {"ephemeral-storage", "4Gi", .08}, {driven, "1", .03}, {"example.com/nowhere", "1", .005}} {
		if !d.chance(extra.chance) || extra.name == "hugepages-2Mi" && main.Requests.Cpu().IsZero() && main.Limits.Cpu().IsZero() || extra.name == driven && !d.features.driven {
			continue
		}
		if main.Limits == nil {
			main.Limits = v1.ResourceList{}
		}
		main.Limits[extra.name] = resource.MustParse(extra.amount) // and, by default, the request
	}
	if len(s.Containers)+len(s.InitContainers) <= 2 && d.chance(.07) { // resources of the pod as a whole, above the sum
		s.Resources = &v1.ResourceRequirements{Requests: requests("3500m", "4Gi")}
		if d.chance(.3) {
			s.Resources.Limits, s.Resources.Requests = requests("4", "6Gi"), nil
		}
	}
	if d.chance(.04) {
		s.RuntimeClassName, s.Overhead = new("sandboxed"), requests("250m", "120Mi")
	}
	if d.chance(.05) {
		port := v1.ContainerPort{ContainerPort: 8080, HostPort: int32(one(d, 8080, 8081)), Protocol: one(d, v1.ProtocolTCP, v1.ProtocolTCP, v1.ProtocolUDP)}
		if d.chance(.3) {
			port.HostIP = "127.0.0.1"
		}
		s.Containers[0].Ports = append(s.Containers[0].Ports, port)
	}
}

// selects draws a node selector and a required node affinity.
func (d *drawer) selects(_ *workload, p *v1.PodTemplateSpec) {
	if d.chance(.15) {
		p.Spec.NodeSelector = one(d, map[string]string{v1.LabelOSStable: "linux"}, map[string]string{v1.LabelArchStable: "amd64"}, map[string]string{disk: "ssd"},
			map[string]string{v1.LabelTopologyZone: one(d, zones...)}, map[string]string{disk: ""})
	}
	if !d.chance(.15) {
		return
	}
	required := &v1.NodeSelector{}
	for range d.between(1, 2) {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, d.nodeTerm())
	}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
}

func (d *drawer) nodeTerm() (t v1.NodeSelectorTerm) {
	if d.chance(.1) {
		t.MatchFields = []v1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: one(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{one(d, d.Nodes...).Name},
		}}
	}
	for len(t.MatchExpressions)+len(t.MatchFields) == 0 || d.chance(.25) {
		key, values := v1.LabelTopologyZone, zones
		if d.chance(.4) {
			key, values = disk, []string{"ssd", "hdd"}
		}
		r := v1.NodeSelectorRequirement{Key: key, Operator: one(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt)}
		switch r.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			r.Values = slices.Clone(values[:d.between(1, 2)])
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			r.Key, r.Values = cores, []string{one(d, "2", "4", "8")}
		case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	return t
}

// tolerates draws tolerations, among them those that the API server adds.
func (d *drawer) tolerates(_ *workload, p *v1.PodTemplateSpec) {
	add := func(chance float64, t v1.Toleration) {
		if d.chance(chance) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, t)
		}
	}
	if d.chance(.9) {
		for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
			add(1, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
		}
	}
	add(.04, v1.Toleration{Operator: v1.TolerationOpExists})
	add(.04, v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	add(.03, v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	add(.08, v1.Toleration{Key: gpu, Operator: v1.TolerationOpExists})
	add(.06, v1.Toleration{Key: "dedicated", Operator: v1.TolerationOpEqual, Value: one(d, "red", "green")})
	add(.06, v1.Toleration{Key: "team", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	add(.04, v1.Toleration{Key: "level", Operator: one(d, v1.TolerationOpLt, v1.TolerationOpGt), Value: "5", Effect: v1.TaintEffectNoSchedule})
	add(.03, v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	add(.03, v1.Toleration{Key: "node.kubernetes.io/os", Operator: v1.TolerationOpEqual, Value: "windows"})
	add(.03, v1.Toleration{Key: one(d, v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure, v1.TaintNodePIDPressure), Operator: v1.TolerationOpExists})
	add(.03, v1.Toleration{Key: one(d, v1.TaintNodeOutOfService, v1.TaintNodeNotReady, v1.TaintNodeUnreachable), Operator: v1.TolerationOpExists})
	add(.02, v1.Toleration{Key: "virtual-kubelet.io/provider", Operator: v1.TolerationOpExists})
}

// others draws fields that decide who places a pod, and when.
func (d *drawer) others(w *workload, p *v1.PodTemplateSpec) {
	s := &p.Spec
	switch {
	case w.kind == "Job":
		s.RestartPolicy = v1.RestartPolicyNever
	case d.chance(.05):
		p.Annotations[one(d, "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict")] = one(d, "true", "false", "4h")
	}
	if d.chance(.04) {
		s.SchedulerName = one(d, "fargate-scheduler", "volcano")
	}
	if d.chance(.2) {
		s.Priority = new(int32(one(d, 0, 1000, -5)))
	}
	if d.chance(.04) {
		s.PreemptionPolicy = new(v1.PreemptNever)
	}
	if d.chance(.02) {
		s.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
	}
	if d.chance(.1) {
		s.TerminationGracePeriodSeconds = new(int64(one(d, 0, 120, 3600)))
	}
}
