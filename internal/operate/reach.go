package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	mpa "github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// reach checks, if the autoscaler is installed, whether the API server reaches its webhook, and the Prometheus servers
// that it may query.
func (d *doctor) reach(ctx context.Context) error {
	const check, name = "webhook", "sigma-mpa"
	resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	o, err := d.Client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // no autoscaler
	case apierrors.IsForbidden(err):
		d.add(check, Unknown, "kubectl auth can-i get "+resource.GroupResource().String(), "the account may not read %s", resource.GroupResource())
		return nil
	case err != nil:
		return d.explain("get", resource.GroupResource().String(), "", err)
	}
	namespace, probed := d.Namespace, false
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, h := range hooks {
		hook, _ := h.(map[string]any)
		if hook["name"] != mpa.ProbeWebhook {
			continue
		}
		probed = true
		if of, ok, _ := unstructured.NestedString(hook, "clientConfig", "service", "namespace"); ok {
			namespace = of
		}
	}
	if !probed {
		d.add(check, Unknown, "kubectl apply the manifests of this version (docs/mpa.md)", "%s %s has no webhook %s: it is of another version", resource.Resource, name, mpa.ProbeWebhook)
	} else if err := d.webhook(ctx, check, namespace); err != nil {
		return err
	}
	return d.prometheus(ctx, namespace)
}

// tries is how often the webhook is probed: an API server may keep a connection to a pod that has just ended.
const tries = 3

// webhook creates in a dry run the object that the webhook marks.
func (d *doctor) webhook(ctx context.Context, check, namespace string) error {
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": mpa.ProbeName, "namespace": namespace},
	}}
	maps := d.Client.Resource(v1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace)
	for range tries {
		answer, err := maps.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsForbidden(err):
			d.add(check, Unknown, "kubectl auth can-i create configmaps -n "+namespace, "it is probed by a dry run that the API server refuses: %s", oneLine(err.Error()))
			return nil
		case apierrors.IsNotFound(err): // the namespace
			d.add(check, Lacks, "kubectl delete mutatingwebhookconfiguration sigma-mpa, if the autoscaler was removed", "its configuration names namespace %s, which is not there", namespace)
			return nil
		case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
			d.add(check, Unknown, "kubectl -n "+namespace+" get events", "the dry run that probes it failed: %s", oneLine(err.Error()))
			return nil
		case err != nil:
			return d.explain("create", "configmaps", namespace, err)
		case answer.GetAnnotations()[mpa.ProbeMark] != "":
			d.add(check, OK, "", "the API server reaches the autoscaler's, in namespace %s", namespace)
			return nil
		}
	}
	d.add(check, Lacks, "kubectl -n "+namespace+" get pods,endpointslices; docs/mpa.md#is-the-webhook-reached says what may be in the way",
		"the API server gets no answer from the autoscaler's: new pods start with the size of their template")
	return nil
}

// prometheus queries the servers of the autoscaler's list through the API server's proxy, since their addresses are
// those of the cluster.
func (d *doctor) prometheus(ctx context.Context, namespace string) error {
	const name, key = "sigma-mpa-prometheus", "servers.yaml"
	o, err := d.Client.Resource(v1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		d.add("Prometheus", Unknown, "kubectl auth can-i get configmaps -n "+namespace, "the account may not read configmaps in %s, where the autoscaler's list is", namespace)
		return nil
	case err != nil:
		return d.explain("get", "configmaps", namespace, err)
	}
	var list struct{ Servers []struct{ Name, URL string } }
	text, _, _ := unstructured.NestedString(o.Object, "data", key)
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		d.add("Prometheus", Lacks, "kubectl -n "+namespace+" edit configmap "+name+" (docs/mpa.md#prometheus)", "%s of configmap %s: %s", key, name, oneLine(err.Error()))
		return nil
	}
	if len(list.Servers) == 0 {
		return nil
	}
	asked, err := d.asked(ctx)
	if err != nil {
		return err
	}
	for _, s := range list.Servers {
		check, missing := "Prometheus "+s.Name, Without
		if asked[s.Name] {
			missing = Lacks
		}
		path, service := proxied(s.URL)
		if path == "" {
			d.add(check, Unknown, "kubectl get multidimpodautoscalers -A; the condition MetricsAvailable says whether the autoscaler gets answers", "%s is no service of the cluster", s.URL)
			continue
		}
		proxy := right{"get", "", "services/proxy", service}
		if may, err := d.may(ctx, &proxy); err != nil {
			return err
		} else if !may {
			d.add(check, Unknown, "kubectl auth can-i get services --subresource=proxy -n "+service, "the account may not ask %s by the API server's proxy", s.URL)
			continue
		}
		switch body, err := d.raw.Get().AbsPath(path).Param("query", "1").Do(ctx).Raw(); {
		case err == nil:
			d.add(check, OK, "", "%s answers", s.URL)
		case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err): // by the server, since the API server allows it
			d.add(check, OK, "", "%s answers, and asks for credentials", s.URL)
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			why := err.Error()
			var status metav1.Status // of the API server
			if json.Unmarshal(body, &status) == nil && status.Message != "" {
				why = status.Message
			}
			d.add(check, missing, "name yours in the configmap "+name+" (docs/mpa.md#prometheus)", "%s does not answer: %s", s.URL, oneLine(why))
		}
	}
	return nil
}

// asked are the servers named by the autoscaler's objects.
func (d *doctor) asked(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	_, err := d.each(ctx, "autoscalers", mpa.SchemeGroupVersion.WithResource("multidimpodautoscalers"), "", func(o *unstructured.Unstructured) error {
		if name, ok, _ := unstructured.NestedString(o.Object, "spec", "metrics", "prometheus", "server"); ok {
			names[name] = true
		}
		return nil
	})
	if apierrors.IsNotFound(err) { // the kind: another finding reports it
		err = nil
	}
	return names, err
}

// proxied is the path by which the API server forwards to a Prometheus behind a service of the cluster, and the
// service's namespace; "" if its address is not that of a service.
func proxied(address string) (path, namespace string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	host := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(u.Hostname(), "."), ".cluster.local"), ".svc")
	name, namespace, ok := strings.Cut(host, ".")
	if !ok || name == "" || namespace == "" || strings.Contains(namespace, ".") {
		return "", ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return fmt.Sprintf("/api/v1/namespaces/%s/services/%s:%s:%s/proxy%s/api/v1/query", namespace, u.Scheme, name, port, strings.TrimSuffix(u.Path, "/")), namespace
}
