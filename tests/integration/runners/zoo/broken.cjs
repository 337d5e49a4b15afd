exports.handler = () => {
