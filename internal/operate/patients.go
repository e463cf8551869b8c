package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// pageSize is the number of objects in one request to the API server.
const pageSize = 500

// each lists all objects of a resource, page by page. Where the account may not, it adds a finding
// and returns false.
func (d *doctor) each(ctx context.Context, check string, of schema.GroupVersionResource, selector string, do func(*unstructured.Unstructured) error) (bool, error) {
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: selector}
	for {
		page, err := d.Client.Resource(of).List(ctx, options)
		switch {
		case apierrors.IsForbidden(err):
			d.add(check, Unknown, "kubectl auth can-i list "+of.GroupResource().String()+" -A", "the account may not list %s", of.GroupResource())
			return false, nil
		case err != nil:
			return false, d.explain("list", of.GroupResource().String(), "", err)
		}
		for i := range page.Items {
			if err := do(&page.Items[i]); err != nil {
				return false, err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return true, nil
		}
	}
}

// nodes checks that there are nodes, and that they have zones.
func (d *doctor) nodes(ctx context.Context) error {
	count, zoned, zones := 0, 0, map[string]bool{}
	var unready []string
	ok, err := d.each(ctx, "nodes", v1.SchemeGroupVersion.WithResource("nodes"), "", func(o *unstructured.Unstructured) error {
		count++
		if zone := o.GetLabels()[v1.LabelTopologyZone]; zone != "" {
			zoned++
			zones[zone] = true
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if of, ok := c.(map[string]any); ok && of["type"] == string(v1.NodeReady) && of["status"] != string(v1.ConditionTrue) {
				unready = append(unready, o.GetName())
			}
		}
		return nil
	})
	if !ok || err != nil {
		return err
	}
	switch {
	case count == 0:
		d.add("nodes", Lacks, "kubectl get nodes", "none")
	case zoned < count:
		d.add("nodes", Without, "kubectl label node … "+v1.LabelTopologyZone+"=…, where pods or rules spread by zone", "%d, of which %d have no zone", count, count-zoned)
	default:
		d.add("nodes", OK, "", "%d, zones: %d", count, len(zones))
	}
	if len(unready) > 0 {
		const most = 5
		more := ""
		if n := len(unready) - most; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		slices.Sort(unready)
		d.add("nodes that are ready", Without, "kubectl describe node "+unready[0], "%d of %d; not ready: %s%s",
			count-len(unready), count, strings.Join(unready[:min(most, len(unready))], ", "), more)
	}
	return nil
}

// ours selects the pods of Sigma's programs, in any namespace.
const ours = "app.kubernetes.io/name in (sigma-scheduler, sigma-extender, sigma-mpa)"

// pods checks that Sigma's pods are ready.
func (d *doctor) pods(ctx context.Context) error {
	ready, schedulers, placing := 0, 0, false
	var bad Diagnosis
	ok, err := d.each(ctx, "Sigma's pods", v1.SchemeGroupVersion.WithResource("pods"), ours, func(o *unstructured.Unstructured) error {
		var pod v1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err != nil {
			return fmt.Errorf("pod %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		if pod.DeletionTimestamp != nil {
			return nil
		}
		program := pod.Labels["app.kubernetes.io/name"]
		placing = placing || program != "sigma-mpa"
		if program == "sigma-scheduler" {
			schedulers++
		}
		if found, next := ailment(&pod); found != "" {
			bad = append(bad, Finding{"pod " + pod.Namespace + "/" + pod.Name, Lacks, found, next})
		} else {
			ready++
		}
		return nil
	})
	if !ok || err != nil {
		return err
	}
	if i := slices.IndexFunc(d.list, func(f Finding) bool { return f.Check == placementKinds }); placing && i >= 0 && d.list[i].State == Without {
		d.list[i].State = Lacks
	}
	if schedulers == 0 {
		d.add("scheduler", Without, "docs/install.md, unless the cluster's own scheduler has the plugin (docs/replace-scheduler.md)", "no pod of sigma-scheduler")
	}
	if ready > 0 {
		d.add("Sigma's pods", OK, "", "%d ready", ready)
	}
	d.list = append(d.list, bad...)
	return nil
}

// ailment is why a pod is not ready, and the next command; "" when it is.
func ailment(pod *v1.Pod) (found, next string) {
	conditions := map[v1.PodConditionType]v1.PodCondition{}
	for _, c := range pod.Status.Conditions {
		conditions[c.Type] = c
	}
	if conditions[v1.PodReady].Status == v1.ConditionTrue {
		return "", ""
	}
	in := fmt.Sprintf("-n %s %s", pod.Namespace, pod.Name)
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			s := &list[i]
			waiting, ended := s.State.Waiting, s.LastTerminationState.Terminated
			switch {
			case waiting != nil && strings.Contains(waiting.Reason, "Image"): // ErrImagePull, ImagePullBackOff, InvalidImageName
				return oneLine(fmt.Sprintf("%s: the image %s cannot be pulled: %s", waiting.Reason, s.Image, waiting.Message)),
					"is it pushed, under that name and tag? kubectl describe pod " + in
			case waiting != nil && ended != nil:
				return oneLine(fmt.Sprintf("%s: container %s ended with %d: %s", waiting.Reason, s.Name, ended.ExitCode, cmp.Or(ended.Message, ended.Reason))),
					"kubectl logs --previous -c " + s.Name + " " + in
			case waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
				return oneLine(waiting.Reason + ": " + waiting.Message), "kubectl describe pod " + in
			}
		}
	}
	if c := conditions[v1.PodScheduled]; c.Status == v1.ConditionFalse {
		return oneLine("has no node: " + c.Message), "kubectl describe pod " + in
	}
	c := conditions[v1.PodReady]
	return oneLine(fmt.Sprintf("%s, not ready %s", pod.Status.Phase, c.Message)), "kubectl logs " + in
}

// oneLine keeps a cell of the table short.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(text), ":")), " ")
	if r := []rune(text); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return text
}

// policies checks that there is a policy that a scheduler uses.
func (d *doctor) policies(ctx context.Context) error {
	if there, err := d.serves(ctx, "/apis/sigma-scheduler.io/v1alpha1"); err != nil || !there[policies.Resource] {
		return err // no kind, no policies: another finding reports it
	}
	count := 0
	ok, err := d.each(ctx, "policies", policies, "", func(o *unstructured.Unstructured) error {
		count++
		_, p, err := withStatus(o)
		if err != nil {
			return err
		}
		check := "policy " + o.GetName()
		active := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionActive)
		accepted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted)
		next := "kubectl describe placementpolicy " + o.GetName()
		switch {
		case accepted == nil || active == nil:
			d.add(check, Lacks, "kubectl -n "+d.Namespace+" get pods", "no scheduler has looked at it")
		case accepted.Status != metav1.ConditionTrue:
			d.add(check, Lacks, "sigma policy rollback "+o.GetName()+", or kubectl apply it mended", "%s", oneLine("not accepted: "+accepted.Message))
		case active.Status != metav1.ConditionTrue:
			d.add(check, Without, next, "%s", oneLine("not in use: "+active.Message))
		default:
			d.add(check, OK, next, "%s", oneLine(active.Message))
		}
		return nil
	})
	if ok && err == nil && count == 0 {
		d.add("policies", Lacks, "kubectl apply -f policy.yaml (docs/install.md)", "none: Sigma decides nothing")
	}
	return err
}
