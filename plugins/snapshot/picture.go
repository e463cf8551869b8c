package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A Picture is a cluster at one moment.
type Picture struct {
	Nodes    []*v1.Node // by name
	Pods     []*v1.Pod  // that have not ended, by age
	Rules    []*kube.Rule
	Declared *kube.Declarations
	Served   []string // extended resources that drivers serve
	Notes    []string // omissions, with the reasons
	Missing  []Missing
	// Of dumps and of a lenient client only.
	Budgets  []*policyv1.PodDisruptionBudget // by namespace/name
	Use      map[string]Use                  // of pods by namespace/name; nil = not known
	attached map[string]bool                 // pods whose volumes are all in their affinity and requests, by namespace/name
	// The whole cluster, where the picture is of a part; nil = the picture is of all.
	AllPods  []*v1.Pod
	AllNodes []*v1.Node
}

// KeepWhole keeps the whole cluster before a part of it is left out.
func (p *Picture) KeepWhole() {
	if p.AllPods == nil {
		p.AllPods, p.AllNodes = slices.Clone(p.Pods), slices.Clone(p.Nodes)
	}
}

// Prices returns the prices of a file, if path is not "", and of the built-in list; nil = neither has a node of the
// picture, and costs are those of the linear model, without a currency. An error names file and line.
func (p *Picture) Prices(path string) (*kube.Prices, error) {
	prices, err := kube.ReadPrices(path)
	if err != nil || prices != nil {
		return prices.WithList(), err
	}
	prices = prices.WithList()
	if slices.ContainsFunc(p.Nodes, func(n *v1.Node) bool { _, by := prices.Of(n); return by == kube.ByList }) {
		return prices, nil
	}
	return nil, nil
}

// others returns the constraints of the cluster's pods on others.
func (p *Picture) others(appLabel string) *podspec.Others {
	if p.AllPods != nil {
		return podspec.NewOthers(p.AllPods, p.AllNodes, appLabel)
	}
	return podspec.NewOthers(p.Pods, p.Nodes, appLabel)
}

// notEnded selects the pods that have not ended: the others take no resources.
const notEnded = "status.phase!=Succeeded,status.phase!=Failed"

// Read reads all objects that placement depends on.
func (c *Client) Read(ctx context.Context) (*Picture, error) {
	p := &Picture{}
	var err error
	if p.Nodes, err = list(ctx, c, v1.SchemeGroupVersion, "nodes", "", func(l *v1.NodeList) []v1.Node { return l.Items }); err != nil {
		return nil, err
	}
	if p.Pods, err = list(ctx, c, v1.SchemeGroupVersion, "pods", notEnded, func(l *v1.PodList) []v1.Pod { return l.Items }); err != nil {
		return nil, err
	}
	p.sort()
	p.leaveOut()
	if err := c.readWorkloads(ctx, p); err != nil || !c.Lenient {
		return p, err
	}
	return p, c.readMore(ctx, p)
}

// fargate is the scheduler that creates a node of its own for each pod.
const fargate = "fargate-scheduler"

// noMachine reports whether pods do not share a node: AWS Fargate made it for one pod, or it is virtual and
// represents a service without nodes (https://virtual-kubelet.io).
func noMachine(n *v1.Node) bool {
	return n.Labels["eks.amazonaws.com/compute-type"] == "fargate" || virtual(n)
}

// virtual reports whether a node represents a service without nodes: its room is a figure without a meaning.
func virtual(n *v1.Node) bool {
	return n.Labels["type"] == "virtual-kubelet" ||
		slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == "virtual-kubelet.io/provider" })
}

// leaveOut leaves out nodes that are no machines, and the pods that are there or wait for one. The constraints of others
// still count them. It adds notes on the pods that no trace has: those with scheduling gates, and those of deleted nodes.
func (p *Picture) leaveOut() {
	gated := slices.DeleteFunc(slices.Clone(p.Pods), func(pod *v1.Pod) bool { return len(pod.Spec.SchedulingGates) == 0 || !unplaced(pod) })
	if len(gated) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("pods with scheduling gates do not wait for a node yet: %d, the first of them %s, are left out", len(gated), nameOf(gated[0])))
	}
	out, there := map[string]bool{}, map[string]bool{"": true}
	for _, n := range p.Nodes {
		there[n.Name] = true
		if noMachine(n) {
			out[n.Name] = true
		}
	}
	lost := slices.DeleteFunc(slices.Clone(p.Pods), func(pod *v1.Pod) bool { return there[pod.Spec.NodeName] })
	if len(lost) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("pods on nodes that the cluster does not have: %d, the first of them %s on %s, are left out", len(lost), nameOf(lost[0]), lost[0].Spec.NodeName))
	}
	if n := len(p.Pods); slices.ContainsFunc(p.Pods, podspec.Batch) {
		p.KeepWhole()
		p.Pods = slices.DeleteFunc(p.Pods, podspec.Batch)
		p.Notes = append(p.Notes, podsText(n-len(p.Pods))+" with the cpu that others leave: left out (docs/batch.md)")
	}
	gone := func(pod *v1.Pod) bool { return out[pod.Spec.NodeName] || pod.Spec.SchedulerName == fargate }
	if len(out) == 0 && !slices.ContainsFunc(p.Pods, gone) {
		return
	}
	p.KeepWhole()
	before := len(p.Pods)
	p.Pods = slices.DeleteFunc(p.Pods, gone)
	p.Nodes = slices.DeleteFunc(p.Nodes, func(n *v1.Node) bool { return out[n.Name] })
	p.Notes = append(p.Notes, fmt.Sprintf("nodes of AWS Fargate and virtual nodes are no machines that pods share: %d, with %s, are left out", len(out), podsText(before-len(p.Pods))))
}

func podsText(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// sort orders nodes by name and pods by age, as the trace does.
func (p *Picture) sort() {
	slices.SortFunc(p.Nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(nameOf(a), nameOf(b)))
	})
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// readWorkloads reads the objects that declare pods, and the placement rules.
func (c *Client) readWorkloads(ctx context.Context, p *Picture) error {
	d := &kube.Declarations{}
	var err error
	if d.Deployments, err = list(ctx, c, appsv1.SchemeGroupVersion, "deployments", "", func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }); c.lacks(p, "Deployment", err) != nil {
		return err
	}
	if d.StatefulSets, err = list(ctx, c, appsv1.SchemeGroupVersion, "statefulsets", "", func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items }); c.lacks(p, "StatefulSet", err) != nil {
		return err
	}
	if d.ReplicaSets, err = list(ctx, c, appsv1.SchemeGroupVersion, "replicasets", "", func(l *appsv1.ReplicaSetList) []appsv1.ReplicaSet { return l.Items }); c.lacks(p, "ReplicaSet", err) != nil {
		return err
	}
	if d.Jobs, err = list(ctx, c, batchv1.SchemeGroupVersion, "jobs", "", func(l *batchv1.JobList) []batchv1.Job { return l.Items }); c.lacks(p, "Job", err) != nil {
		return err
	}
	if d.CronJobs, err = list(ctx, c, batchv1.SchemeGroupVersion, "cronjobs", "", func(l *batchv1.CronJobList) []batchv1.CronJob { return l.Items }); c.lacks(p, "CronJob", err) != nil {
		return err
	}
	if d.Autoscalers, err = list(ctx, c, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", "",
		func(l *autoscalingv2.HorizontalPodAutoscalerList) []autoscalingv2.HorizontalPodAutoscaler {
			return l.Items
		}); c.lacks(p, "HorizontalPodAutoscaler", err) != nil {
		return err
	}
	p.Declared = d
	if err := c.readClasses(ctx, p); err != nil {
		return err
	}
	return c.readRules(ctx, p)
}

// unoffered lists the served resources that no node has in its allocatable: a policy leaves only
// these out, and the translator has no nodes yet.
func (p *Picture) unoffered() []string {
	return slices.DeleteFunc(slices.Clone(p.Served), func(name string) bool {
		return slices.ContainsFunc(p.Nodes, func(n *v1.Node) bool {
			q := n.Status.Allocatable[v1.ResourceName(name)]
			return q.Sign() > 0
		})
	})
}

// readClasses reads the resources that drivers serve, if the cluster has device classes
// and lets us read them.
func (c *Client) readClasses(ctx context.Context, p *Picture) error {
	classes, err := list(ctx, c, resourcev1.SchemeGroupVersion, "deviceclasses", "", func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items })
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		p.Notes = append(p.Notes, "device classes cannot be read: a pod that asks for an extended resource that only a driver serves fits no node")
		return nil
	}
	p.Served = kube.Served(classes)
	return err
}

// readRules reads the placement rules, if the cluster has that API.
func (c *Client) readRules(ctx context.Context, p *Picture) error {
	known, err := c.serves(ctx)
	if err != nil || !known {
		return err
	}
	objects, err := list(ctx, c, v1alpha1.SchemeGroupVersion, "placementrules", "", func(l *v1alpha1.PlacementRuleList) []v1alpha1.PlacementRule { return l.Items })
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p.addRules(objects)
	return nil
}

// addRules adds placement rules by name. A note names those that are not valid.
func (p *Picture) addRules(objects []*v1alpha1.PlacementRule) {
	slices.SortFunc(objects, func(a, b *v1alpha1.PlacementRule) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range objects {
		r, err := kube.NewRule(o)
		if err != nil {
			p.Notes = append(p.Notes, fmt.Sprintf("the placement rule %s is ignored: %v", o.Name, err))
			continue
		}
		p.Rules = append(p.Rules, r)
	}
}

// standing returns the pods of each node.
func (p *Picture) standing() map[string][]*v1.Pod {
	on := map[string][]*v1.Pod{}
	for _, pod := range p.Pods {
		if pod.Spec.NodeName != "" {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
		}
	}
	return on
}

// waits reports whether a pod waits for a scheduler to choose its node.
func waits(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) == 0 && unplaced(p) }

// unplaced reports whether a live pod has no node, and is not part of a node.
func unplaced(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && podspec.Moves(p) && !podspec.Ended(p)
}
