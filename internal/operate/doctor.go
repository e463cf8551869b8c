package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// A State is the result of a check.
type State string

// The states.
const (
	OK      State = "ok"
	Lacks   State = "lacks"   // Sigma needs it
	Without State = "without" // Sigma does with less
	Unknown State = "unknown" // the account may not look
)

// A Finding is one check of a cluster.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Found string `json:"found"`
	Next  string `json:"next,omitempty"` // command
}

// A Diagnosis lists the features that a cluster has for Sigma, and lacks.
type Diagnosis []Finding

// Lacking is the number of findings of features that Sigma needs and the cluster lacks.
func (d Diagnosis) Lacking() (n int) {
	for _, f := range d {
		if f.State == Lacks {
			n++
		}
	}
	return n
}

// Write writes a diagnosis as a table, or as JSON.
func (d Diagnosis) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tSTATE\tFOUND\tNEXT")
	for _, f := range d {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Check, f.State, f.Found, f.Next)
	}
	return t.Flush()
}

// The minor versions of Kubernetes 1 that Sigma supports: docs/operations.md.
const (
	oldestMinor = 36
	newestMinor = 37
)

// A doctor is one examination.
type doctor struct {
	*Cluster
	raw  *rest.RESTClient
	list Diagnosis
}

func (d *doctor) add(check string, state State, next, format string, args ...any) {
	if state == OK {
		next = ""
	}
	d.list = append(d.list, Finding{check, state, fmt.Sprintf(format, args...), next})
}

// Examine checks a cluster's prerequisites for Sigma. It fails if the API server does not
// answer, or does not authenticate the account.
func (c *Cluster) Examine(ctx context.Context) (Diagnosis, error) {
	d, err := c.doctor()
	if err != nil {
		return nil, err
	}
	if err := d.version(ctx); err != nil {
		return nil, err
	}
	for _, check := range []func(context.Context) error{d.rights, d.kinds, d.features, d.reach, d.nodes, d.pods, d.policies} {
		if err := check(ctx); err != nil {
			return nil, err
		}
	}
	return d.list, nil
}

// doctor begins an examination.
func (c *Cluster) doctor() (*doctor, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	raw, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &doctor{Cluster: c, raw: raw}, nil
}

// version checks the API server's version.
func (d *doctor) version(ctx context.Context) error {
	var v struct{ Major, Minor, GitVersion string }
	if err := d.read(ctx, "/version", &v); err != nil {
		return d.explain("get", "/version", "", err)
	}
	minor := 0
	if n, _ := fmt.Sscanf(v.Minor, "%d", &minor); n != 1 || v.Major != "1" { // some providers write 36+
		d.add("API server", Unknown, "kubectl version", "version %s", v.GitVersion)
		return nil
	}
	state, next := OK, ""
	switch {
	case minor < oldestMinor:
		state, next = Lacks, fmt.Sprintf("upgrade the cluster to 1.%d or 1.%d (docs/operations.md)", oldestMinor, newestMinor)
	case minor > newestMinor:
		state, next = Lacks, "a newer Sigma (docs/operations.md)"
	}
	d.add("API server", state, next, "%s; Sigma runs on 1.%d and 1.%d", v.GitVersion, oldestMinor, newestMinor)
	return nil
}

// read reads a path of the API server.
func (d *doctor) read(ctx context.Context, path string, into any) error {
	text, err := d.raw.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// serves returns the resources of a group's version that the API server has, by name; nil if it has
// no such group.
func (d *doctor) serves(ctx context.Context, path string) (map[string]bool, error) {
	var list metav1.APIResourceList
	err := d.read(ctx, path, &list)
	if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) { // the latter: an aggregated API that is down
		return nil, nil
	}
	if err != nil {
		return nil, d.explain("get", path, "", err)
	}
	names := map[string]bool{}
	for i := range list.APIResources {
		names[list.APIResources[i].Name] = true
	}
	return names, nil
}

// A right is a permission of an account.
type right struct{ verb, group, resource, namespace string }

func (r *right) String() string {
	name := r.resource
	if r.group != "" {
		name += "." + r.group
	}
	return r.verb + " " + name
}

// rights checks the account's permissions: to look, to install, to lead policies.
func (d *doctor) rights(ctx context.Context) error {
	const rbac = "rbac.authorization.k8s.io"
	for _, of := range []struct {
		check, next string
		rights      []right
	}{
		{
			"rights: snapshot", "docs/snapshot.md lists them; kubectl auth can-i --list", []right{
				{"list", "", "nodes", ""},
				{"list", "", "pods", ""},
				{"list", "apps", "deployments", ""},
				{"list", "apps", "statefulsets", ""},
				{"list", "apps", "replicasets", ""},
				{"list", "batch", "jobs", ""},
				{"list", "batch", "cronjobs", ""},
				{"list", "autoscaling", "horizontalpodautoscalers", ""},
			},
		},
		{
			"rights: install", "an account of a cluster administrator; kubectl auth can-i '*' '*'", []right{
				{"create", "apiextensions.k8s.io", "customresourcedefinitions", ""},
				{"create", rbac, "clusterroles", ""},
				{"escalate", rbac, "clusterroles", ""},
				{"create", rbac, "clusterrolebindings", ""},
				{"create", "", "namespaces", ""},
				{"create", "apps", "deployments", d.Namespace},
			},
		},
		{
			"rights: policies", "docs/policy-history.md lists them; kubectl auth can-i --list -n " + d.Namespace, []right{
				{"get", policies.Group, policies.Resource, ""}, {"patch", policies.Group, policies.Resource, ""}, {"list", "apps", "controllerrevisions", d.Namespace},
			},
		},
	} {
		var missing []string
		for i := range of.rights {
			ok, err := d.may(ctx, &of.rights[i])
			if err != nil {
				return err
			}
			if !ok {
				missing = append(missing, of.rights[i].String())
			}
		}
		if len(missing) > 0 {
			d.add(of.check, Without, of.next, "not allowed: %s", strings.Join(missing, ", "))
		} else {
			d.add(of.check, OK, "", "the account has them")
		}
	}
	return nil
}

// may checks whether the account has a right; every account may make this request.
func (d *doctor) may(ctx context.Context, r *right) (bool, error) {
	resource := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	name, sub, _ := strings.Cut(r.resource, "/")
	answer, err := d.Client.Resource(resource).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": r.verb, "group": r.group, "resource": name, "subresource": sub, "namespace": r.namespace,
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, d.explain("create", "selfsubjectaccessreviews.authorization.k8s.io", "", err)
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, nil
}

const placementKinds = "kinds: placement"

// kinds checks the kinds of Sigma's objects.
func (d *doctor) kinds(ctx context.Context) error {
	const apply = "kubectl apply -f crds.yaml (docs/install.md)"
	there, err := d.serves(ctx, "/apis/sigma-scheduler.io/v1alpha1")
	if err != nil {
		return err
	}
	all := []string{"placementpolicies", "placementrules", "placementplans", "rebalances"}
	missing := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return there[name] })
	switch len(missing) {
	case 0:
		d.add(placementKinds, OK, "", "%s", strings.Join(all, ", "))
	case len(all): // unless there are pods that need them
		d.add(placementKinds, Without, "to install Sigma: "+apply, "not there: %s", strings.Join(missing, ", "))
	default:
		d.add(placementKinds, Lacks, apply, "not there: %s", strings.Join(missing, ", "))
	}
	return nil
}

// features checks the requirements of the autoscaler and of some components.
func (d *doctor) features(ctx context.Context) error {
	autoscaler, err := d.serves(ctx, "/apis/autoscaling.sigma-scheduler.io/v1alpha1")
	if err != nil {
		return err
	}
	needed := Without
	if autoscaler["multidimpodautoscalers"] {
		needed = Lacks
		d.add("kinds: autoscaler", OK, "", "multidimpodautoscalers")
	} else {
		d.add("kinds: autoscaler", Without, "kubectl apply -f crds-mpa.yaml (docs/mpa.md), where you want the autoscaler", "not there")
	}
	for _, f := range []struct {
		check, next, found, lack string
		state                    State
		paths                    []string
		resource                 string
	}{
		{"in-place resize", "the autoscaler's mode Recreate (docs/mpa.md)", "pods/resize", "no pods/resize", needed, []string{"/api/v1"}, "pods/resize"},
		{"metrics API", "install metrics-server, or name a Prometheus to the autoscaler (docs/mpa.md)", "metrics.k8s.io", "no metrics.k8s.io that answers", Without, []string{"/apis/metrics.k8s.io/v1beta1"}, "pods"},
		{"Prometheus operator", "scrape the pods by their annotations or by hand (docs/install.md)", "servicemonitors", "no servicemonitors", Without, []string{"/apis/monitoring.coreos.com/v1"}, "servicemonitors"},
		{
			"MutatingAdmissionPolicy", "no components native-rules and namespaces (docs/autoscalers.md)", "mutatingadmissionpolicies", "no mutatingadmissionpolicies", Without,
			[]string{"/apis/admissionregistration.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1beta1"},
			"mutatingadmissionpolicies",
		},
	} {
		state, found := f.state, f.lack
		for _, path := range f.paths {
			there, err := d.serves(ctx, path)
			if err != nil {
				return err
			}
			if there[f.resource] {
				state, found = OK, f.found+" in "+strings.TrimPrefix(path, "/apis/")
				break
			}
		}
		d.add(f.check, state, f.next, "%s", found)
	}
	return nil
}
