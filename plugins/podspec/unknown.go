package podspec

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// read are the fields that the model of nodes has, that are checked below, or that no filter of the scheduler
// reads. Any other field of these types that a pod sets, so also one of a later Kubernetes, is an unknown
// constraint.
var read = map[reflect.Type]map[string]bool{
	reflect.TypeFor[v1.PodSpec](): set(
		// The model has them, or they are checked below.
		"Volumes", "InitContainers", "Containers", "NodeSelector", "NodeName", "HostNetwork", "Affinity", "SchedulerName", "Tolerations",
		"Overhead", "TopologySpreadConstraints", "SchedulingGates", "ResourceClaims", "Resources", "Priority",
		// No filter reads them. The requirements of a runtime class are in the overhead, the tolerations and the node selector of the pod.
		"EphemeralContainers", "RestartPolicy", "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "DNSPolicy", "ServiceAccountName",
		"DeprecatedServiceAccount", "AutomountServiceAccountToken", "HostPID", "HostIPC", "ShareProcessNamespace", "SecurityContext",
		"ImagePullSecrets", "Hostname", "Subdomain", "HostAliases", "PriorityClassName", "DNSConfig", "ReadinessGates", "RuntimeClassName",
		"EnableServiceLinks", "PreemptionPolicy", "SetHostnameAsFQDN", "OS", "HostUsers", "HostnameOverride",
	),
	reflect.TypeFor[v1.Container](): set(
		"Ports", "Resources", "RestartPolicy",
		"Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "ResizePolicy", "VolumeMounts", "VolumeDevices", "LivenessProbe",
		"ReadinessProbe", "StartupProbe", "Lifecycle", "TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext",
		"Stdin", "StdinOnce", "TTY",
	),
	reflect.TypeFor[v1.Affinity]():        set("NodeAffinity", "PodAffinity", "PodAntiAffinity"),
	reflect.TypeFor[v1.NodeAffinity]():    set("RequiredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution"),
	reflect.TypeFor[v1.PodAffinity]():     set("PreferredDuringSchedulingIgnoredDuringExecution"),
	reflect.TypeFor[v1.PodAntiAffinity](): set("RequiredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution"),
	reflect.TypeFor[v1.PodAffinityTerm](): set("LabelSelector", "Namespaces", "TopologyKey", "NamespaceSelector"),
	reflect.TypeFor[v1.TopologySpreadConstraint](): set(
		"MaxSkew", "TopologyKey", "WhenUnsatisfiable", "LabelSelector", "MinDomains", "NodeAffinityPolicy", "NodeTaintsPolicy",
	),
	reflect.TypeFor[v1.VolumeSource](): set( // that every node can have, any number of
		"HostPath", "EmptyDir", "GitRepo", "Secret", "NFS", "DownwardAPI", "ConfigMap", "Projected", "Image", "Glusterfs", "CephFS", "AzureFile",
	),
}

func set(names ...string) map[string]bool {
	of := map[string]bool{}
	for _, name := range names {
		of[name] = true
	}
	return of
}

// notRead are the other fields of the types of read, by index.
var notRead = func() map[reflect.Type][]int {
	of := map[reflect.Type][]int{}
	for t, names := range read {
		for i := range t.NumField() {
			if !names[t.Field(i).Name] {
				of[t] = append(of[t], i)
			}
		}
	}
	return of
}()

// nameOfField is the name of a field in a manifest.
func nameOfField(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// extra names a field, as in a manifest, that is set and not read; "" if there is none.
func extra[T any](object *T) string {
	v := reflect.ValueOf(object).Elem()
	for _, i := range notRead[v.Type()] {
		if f := v.Field(i); !f.IsZero() && (f.Kind() != reflect.Slice || f.Len() > 0) {
			return nameOfField(v.Type().Field(i))
		}
	}
	return ""
}

// Unknown names a constraint that the scheduler applies to a pod and the model of nodes lacks, as far as the pod has it;
// "" if there is none. Constraints of others are in [Others].
func Unknown(pod *v1.Pod) string { return first(unknowns(pod)) }

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// Volumes is the unknown constraint of a pod with volumes that not every node can have.
const Volumes = "its volumes"

// AnyNode reports whether every node can have a volume, and any number of its kind.
func AnyNode(v *v1.Volume) bool { return extra(&v.VolumeSource) == "" }

// HostPorts is the unknown constraint of a pod that takes ports of its node.
const HostPorts = "its host ports"

func unknowns(pod *v1.Pod) (list []string) {
	add := func(what string) {
		if !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	s := &pod.Spec
	if field := extra(s); field != "" {
		add("its spec." + field)
	}
	if slices.ContainsFunc(s.Volumes, func(v v1.Volume) bool { return !AnyNode(&v) }) {
		add(Volumes)
	}
	if len(s.ResourceClaims) > 0 {
		add("its resource claims")
	}
	if pod.Status.ExtendedResourceClaimStatus != nil {
		add("the devices that a driver serves")
	}
	if resizing(pod) {
		add("its resize, which is under way")
	}
	for _, containers := range [][]v1.Container{s.Containers, s.InitContainers} {
		for i := range containers {
			c := &containers[i]
			if field := extra(c); field != "" {
				add("the " + field + " of its container " + c.Name)
			}
			if s.HostNetwork && len(c.Ports) > 0 || slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return p.HostPort > 0 }) {
				add(HostPorts)
			}
		}
	}
	if slices.ContainsFunc(s.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool { return hard(&c) && !evenZones(&c) }) {
		add("its topology spread")
	}
	a := s.Affinity
	if a == nil {
		return list
	}
	if field := extra(a); field != "" {
		add("its affinity." + field)
	}
	if a.NodeAffinity != nil && extra(a.NodeAffinity) != "" {
		add("its node affinity")
	}
	if a.PodAffinity != nil && extra(a.PodAffinity) != "" {
		add("its pod affinity")
	}
	if a.PodAntiAffinity == nil {
		return list
	}
	if extra(a.PodAntiAffinity) != "" {
		add("its anti-affinity")
	}
	for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if why := unknownTerm(&a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]); why != "" {
			add("its anti-affinity " + why)
		}
	}
	return list
}

// resizing reports whether the scheduler counts a pod by more than its specification: a replacement is of another size.
func resizing(pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" && hasOtherSizes(pod) && !maps.Equal(Demand(pod), Demand(&v1.Pod{Spec: pod.Spec}))
}

// hasOtherSizes reports whether a container, or the pod, has other requests in its status than in its specification.
// Adding them all up takes longer.
func hasOtherSizes(pod *v1.Pod) bool {
	if pod.Spec.Resources != nil {
		return true
	}
	other := func(has, want v1.ResourceList) bool {
		for name, q := range has {
			if of, ok := want[name]; !ok || q.Cmp(of) != 0 {
				return true
			}
		}
		return false
	}
	of := func(statuses []v1.ContainerStatus, containers []v1.Container) bool {
		return slices.ContainsFunc(statuses, func(s v1.ContainerStatus) bool {
			i := slices.IndexFunc(containers, func(c v1.Container) bool { return c.Name == s.Name })
			if i < 0 {
				return true
			}
			want := containers[i].Resources.Requests
			return other(s.AllocatedResources, want) || s.Resources != nil && other(s.Resources.Requests, want)
		})
	}
	return of(pod.Status.ContainerStatuses, pod.Spec.Containers) || of(pod.Status.InitContainerStatuses, pod.Spec.InitContainers)
}

// hard reports whether the scheduler keeps a pod off nodes because of a topology spread: an unknown value may
// be a hard one.
func hard(c *v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != v1.ScheduleAnyway }

// unknownTerm describes the part of a required term of anti-affinity that the model lacks; "" if it has all.
func unknownTerm(t *v1.PodAffinityTerm) string {
	switch n := t.NamespaceSelector; {
	case t.TopologyKey != v1.LabelHostname && t.TopologyKey != v1.LabelTopologyZone:
		return "by " + t.TopologyKey
	case n != nil && len(n.MatchLabels)+len(n.MatchExpressions) > 0:
		return "by the labels of namespaces"
	case extra(t) != "":
		return "by " + extra(t)
	}
	return ""
}

// AntiAffinity returns the required terms of a pod's anti-affinity that the model of nodes has.
func AntiAffinity(pod *v1.Pod) (terms []v1.PodAffinityTerm) {
	a := pod.Spec.Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if unknownTerm(&t) == "" {
			terms = append(terms, t)
		}
	}
	return terms
}

// ManyDomains is a minDomains above the number of zones of any cluster: then the fewest pods of a zone
// count as 0, and maxSkew is the maximum of a zone. docs/autoscalers.md states limits in that way.
const ManyDomains = 1000

// evenZones reports whether the model of nodes has a hard topology spread: over zones, with a maximum of each, or
// among the nodes that the pod may use. Whether its selector picks others is in [Others].
func evenZones(c *v1.TopologySpreadConstraint) bool {
	honors := func(p *v1.NodeInclusionPolicy) bool { return p != nil && *p == v1.NodeInclusionPolicyHonor }
	return c.TopologyKey == v1.LabelTopologyZone && extra(c) == "" && (c.MinDomains != nil && *c.MinDomains >= ManyDomains ||
		c.MinDomains == nil && honors(c.NodeTaintsPolicy) && (c.NodeAffinityPolicy == nil || honors(c.NodeAffinityPolicy)))
}

// zoned reports whether a pod's own constraints keep it off zones: the planners of moves have no zones.
func zoned(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool { return hard(&c) }) ||
		slices.ContainsFunc(AntiAffinity(pod), func(t v1.PodAffinityTerm) bool { return t.TopologyKey == v1.LabelTopologyZone })
}
