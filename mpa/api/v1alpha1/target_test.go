package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

func TestIs(t *testing.T) {
	web := v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	assert.True(t, web.Is("apps/v1", "Deployment", "web"))
	assert.True(t, web.Is("apps/v1beta1", "Deployment", "web"))
	assert.True(t, web.Is("", "Deployment", "web"))
	assert.False(t, web.Is("example.com/v1", "Deployment", "web"))
	assert.False(t, web.Is("apps/v1", "StatefulSet", "web"))
	assert.False(t, web.Is("apps/v1", "Deployment", "db"))
}

func TestText(t *testing.T) {
	assert.Equal(t, "two lines", v1alpha1.Text("two\nlines"))
	long := v1alpha1.Text(strings.Repeat("é", 1000) + "x")
	assert.Equal(t, strings.Repeat("é", 512)+" …", long)
	assert.Equal(t, "x"+strings.Repeat("é", 511)+" …", v1alpha1.Text("x"+strings.Repeat("é", 1000)), "whole letters")
}
