// Package policy puts the shipped policy for clusters with departures in force,
// under the name that the plugin's arguments have by default.
package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1 "github.com/sigma-scheduler/sigma/plugins/apis/config/v1"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// Install creates Sigma's definitions and the policy, as a user would with
// kubectl. root is the folder of the main module.
func Install(ctx context.Context, config *rest.Config, root string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, file := range []string{"placementpolicies.yaml", "placementrules.yaml", "placementplans.yaml", "rebalances.yaml"} {
		object, err := read(filepath.Join(root, "manifests", "base", "crds", file))
		if err != nil {
			return err
		}
		if err := create(ctx, client.Resource(definitions), object); err != nil {
			return err
		}
	}
	object, err := read(filepath.Join(root, "benchdata", "policies", "kubernetes-k0.yaml"))
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(object.Object, "live", "spec", "mode"); err != nil {
		return err
	}
	object.SetName(configv1.DefaultPolicyName)
	return create(ctx, client.Resource(v1alpha1.SchemeGroupVersion.WithResource("placementpolicies")), object)
}

func read(file string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSONStrict(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return object, nil
}

// create tries again while the API server does not serve the object's kind: a
// definition takes a moment.
func create(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			err = fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return err == nil, err
	})
}
