package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// appLabel is what the pods' template calls an app.
const appLabel = "app"

// templates are scheduler_perf's own: both measures schedule the same pods.
type templates struct {
	node, pod *template.Template
}

func readTemplates(folder string) (templates, error) {
	functions := template.FuncMap{ // scheduler_perf's
		"div": func(a, b int) int { return a / b },
		"mod": func(a, b int) int { return a % b },
	}
	var t templates
	for name, to := range map[string]**template.Template{"node.yaml": &t.node, "pod.yaml": &t.pod} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return templates{}, err
		}
		if *to, err = template.New(name).Funcs(functions).Parse(string(text)); err != nil {
			return templates{}, err
		}
	}
	return t, nil
}

func execute(t *template.Template, index int, object any) error {
	var text bytes.Buffer
	if err := t.Execute(&text, map[string]int{"Index": index}); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text.Bytes(), object); err != nil {
		return fmt.Errorf("%s, index %d: %w", t.Name(), index, err)
	}
	return nil
}

// create makes the nodes, a running pod on each of them, and the pods that wait.
// Two thirds of the apps are Deployments, the pods of the others have no owner.
func (t templates) create(ctx context.Context, client kubernetes.Interface, nodes, pods int) error {
	for i := range nodes {
		node := new(corev1.Node)
		if err := execute(t.node, i, node); err != nil {
			return err
		}
		node.GenerateName, node.Name = "", nodeName(i)
		node.Labels[corev1.LabelHostname] = node.Name
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}

	waiting := make([]*corev1.Pod, nodes+pods)
	byApp := make(map[string][]*corev1.Pod)
	var apps []string // in order of appearance
	for i := range waiting {
		pod := new(corev1.Pod)
		if err := execute(t.pod, i, pod); err != nil {
			return err
		}
		// GenerateName stays: it names the app of a pod without an owner. Pods
		// are listed by name, so they are queued by name.
		pod.Name = fmt.Sprintf("pod-%06d", i)
		if i < nodes {
			pod.Spec.NodeName = nodeName(i)
		}
		app := pod.Labels[appLabel]
		if byApp[app] == nil {
			apps = append(apps, app)
		}
		byApp[app] = append(byApp[app], pod)
		waiting[i] = pod
	}
	for i, app := range apps {
		if i%3 == 0 {
			continue
		}
		if err := own(ctx, client, app, byApp[app]); err != nil {
			return fmt.Errorf("owners of %s: %w", app, err)
		}
	}
	for _, pod := range waiting {
		if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// own creates the Deployment of an app and its ReplicaSet, as the controllers that
// do not run here would, and makes the ReplicaSet the owner of the pods.
func own(ctx context.Context, client kubernetes.Interface, app string, pods []*corev1.Pod) error {
	const hash = "5d59d67564"
	for _, pod := range pods {
		pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	}
	model := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pods[0].Labels}, Spec: pods[0].Spec}
	model.Spec.NodeName = ""
	replicas := new(int32(len(pods)))

	deployment, err := client.AppsV1().Deployments(metav1.NamespaceDefault).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}},
			Template: model,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	set, err := client.AppsV1().ReplicaSets(metav1.NamespaceDefault).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            app + "-" + hash,
			Labels:          model.Labels,
			OwnerReferences: []metav1.OwnerReference{*controller(deployment, "Deployment")},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: model.Labels},
			Template: model,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods {
		pod.OwnerReferences = []metav1.OwnerReference{*controller(set, "ReplicaSet")}
	}
	return nil
}

func controller(object metav1.Object, kind string) *metav1.OwnerReference {
	return metav1.NewControllerRef(object, appsv1.SchemeGroupVersion.WithKind(kind))
}
