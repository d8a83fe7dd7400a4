// SPDX-License-Identifier: Apache-2.0

//go:build page

package main

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
)

func newHandler(secrets *manager.Manager[*corev1.Secret]) http.Handler {
	handler, err := debug.NewHandler(debug.Options{Sources: map[string]debug.Source{"secrets": secrets}})
	if err != nil {
		panic(err)
	}
	return handler
}
