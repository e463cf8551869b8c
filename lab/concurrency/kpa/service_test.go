package kpa

import (
	"context"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"sigs.k8s.io/yaml"
)

// TestService: a Service with what `sigma mpa concurrency recommend --format knative` prints is one that Knative takes.
func TestService(t *testing.T) {
	script, err := os.ReadFile("../../../internal/cli/testdata/script/mpa_concurrency.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(script), "-- knative.yaml --\n")
	if !found {
		t.Fatal("the script has no knative.yaml")
	}
	text, _, _ = strings.Cut(text, "\n-- ")
	validate := func(text string) string {
		s := &servingv1.Service{}
		if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		s.Name, s.Namespace = "web", "default"
		s.Spec.Template.Spec.Containers = []v1.Container{{Name: "user-container", Image: "registry.example.com/web"}}
		ctx := context.Background()
		s.SetDefaults(ctx)
		return s.Validate(ctx).Filter(apis.ErrorLevel).Error() // warnings are about defaults
	}
	if refused := validate(text); refused != "" {
		t.Fatal(refused)
	}
	if refused := validate(strings.Replace(text, "metric: rps", "metric: guess", 1)); !strings.Contains(refused, "autoscaling.knative.dev/metric") {
		t.Fatalf("%q: the annotations are not looked at", refused)
	}
}
