"""The trusted core: records leave it through charged releases alone. Every line here is a privacy claim."""
