// SPDX-License-Identifier: Apache-2.0

//go:build !page

package main

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
)

func newHandler(*manager.Manager[*corev1.Secret]) http.Handler { return http.NotFoundHandler() }
